//! The imports between the top modules of a crate, read from its source as text: `crate::module` outside of comments and
//! of unit tests. What the compiler makes of them does not matter here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which modules each module imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports of the crate whose sources are in `folder`. `lib.rs` and `main.rs` may import everything.
///
/// # Panics
/// Where the folder cannot be read.
pub fn imports(folder: &Path) -> Imports {
    let mut files = Vec::new();
    collect(folder, &mut files);
    let name = |path: &Path| {
        let first = path.strip_prefix(folder).ok()?.components().next()?.as_os_str().to_str()?.to_owned();
        let name = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
        (name != "lib" && name != "main").then_some(name)
    };
    let mut imports: Imports = files.iter().filter_map(|path| name(path)).map(|name| (name, BTreeSet::new())).collect();
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for path in &files {
        let Some(module) = name(path) else { continue };
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut found = named(&code(&text), "crate::");
        if path.parent() == Some(folder) {
            found.extend(named(&code(&text), "super::"));
        }
        found.retain(|other| *other != module && modules.contains(other));
        imports.entry(module).or_default().extend(found);
    }
    imports
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// The text without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    // Some unit tests are of one system alone: `#[cfg(all(test, unix))]`.
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test, unix))]\nmod "];
    let text = &text[..tests.iter().filter_map(|start| text.find(start)).min().unwrap_or(text.len())];
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// The names that follow `prefix`, those in braces among them.
fn named(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split(prefix).skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        // Names at the first level of the braces.
        let (mut depth, mut item) = (0usize, String::new());
        for c in list.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.insert(word(item.trim_start()));
                    item.clear();
                    continue;
                }
                _ => {}
            }
            item.push(c);
        }
        names.insert(word(item.trim_start()));
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// A way from a module back to itself, if there is one.
pub fn cycle(imports: &Imports) -> Option<Vec<String>> {
    imports.keys().find_map(|start| {
        let mut way = vec![start.clone()];
        leads_back(imports, start, &mut way, &mut BTreeSet::new()).then_some(way)
    })
}

fn leads_back(imports: &Imports, start: &str, way: &mut Vec<String>, seen: &mut BTreeSet<String>) -> bool {
    let Some(here) = way.last().cloned() else { return false };
    for next in imports.get(&here).into_iter().flatten() {
        if next == start {
            way.push(next.clone());
            return true;
        }
        if seen.insert(next.clone()) {
            way.push(next.clone());
            if leads_back(imports, start, way, seen) {
                return true;
            }
            way.pop();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_in_every_form() {
        let text = "use crate::a::B;\nuse crate::{c, d::{E, f}, g};\n// crate::h\nlet x = crate::i::j();\n\
                    #[cfg(test)]\nmod tests { use crate::k; }";
        let found: Vec<String> = named(&code(text), "crate::").into_iter().collect();
        assert_eq!(found, ["a", "c", "d", "g", "i"]);
        let text = "use crate::a::B;\n#[cfg(all(test, unix))]\nmod tests { use crate::k; }";
        assert_eq!(named(&code(text), "crate::"), BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn a_cycle_is_found() {
        let imports = |pairs: &[(&str, &[&str])]| -> Imports {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), b.iter().map(|b| (*b).to_owned()).collect())).collect()
        };
        assert_eq!(cycle(&imports(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
        let found = cycle(&imports(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
        assert_eq!(found, Some(["b", "c", "b"].map(str::to_owned).to_vec()));
    }
}
