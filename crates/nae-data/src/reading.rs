//! Reports the progress of reading files to a callback. The callback does not affect what is read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Called with the number of files read and their total; at the end of each pass both are equal.
type Watch = Rc<dyn Fn(usize, usize)>;

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Runs `f` and calls `watch` while `f` reads folders and zip archives on this thread, with the number of files read
/// and their total. At the end of a pass over the files both are equal. Reading a tar archive does not call it, since
/// the number of its files is unknown before its end.
pub fn watched<R>(watch: impl Fn(usize, usize) + 'static, f: impl FnOnce() -> R) -> R {
    /// Restores the previous callback, also after a panic.
    struct Restore(Option<Watch>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCH.set(self.0.take());
        }
    }
    let _restore = Restore(WATCH.replace(Some(Rc::new(watch))));
    f()
}

/// One pass over files.
pub(super) struct Reading {
    watch: Option<Watch>,
    done: Cell<usize>,
    of: usize,
}

impl Reading {
    pub(super) fn of(files: usize) -> Self {
        Self { watch: WATCH.with_borrow(Clone::clone), done: Cell::new(0), of: files }
    }

    /// Reports the files before this one as read; called before each file.
    pub(super) fn one_more(&self) {
        if let Some(watch) = &self.watch {
            let done = self.done.get();
            self.done.set(done + 1);
            watch(done, self.of);
        }
    }
}

impl Drop for Reading {
    /// Reports the end of the pass, also if it stops early.
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch(self.of, self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    use crate::files::Files;

    #[test]
    fn each_pass_is_told_from_none_to_all_and_only_while_it_is_watched() {
        let folder = tempfile::tempdir().expect("a folder");
        for n in 0..3 {
            std::fs::write(folder.path().join(format!("{n}.png")), b"x").expect("writes");
        }
        std::fs::write(folder.path().join("notes.txt"), b"x").expect("writes");
        let told = Rc::new(RefCell::new(Vec::new()));
        let noted = Rc::clone(&told);
        let pass = |end: usize| {
            let mut count = 0;
            let mut each = |_: &str, _| {
                count += 1;
                if count == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let files = Files::open(folder.path()).expect("there");
            files.visit(&|name| name.ends_with(".png"), &mut each).expect("reads");
        };
        watched(move |done, of| noted.borrow_mut().push((done, of)), || [3, 1].map(pass));
        pass(3);
        assert_eq!(*told.borrow(), [(0, 3), (1, 3), (2, 3), (3, 3), (0, 3), (3, 3)]);
    }
}
