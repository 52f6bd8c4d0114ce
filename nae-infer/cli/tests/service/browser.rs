//! A browser that is told what to do: Chromium by its protocol for tools (CDP), over two pipes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{PATIENCE, eventually};

/// A program that browses, where there is one.
pub(crate) fn chromium() -> Option<&'static str> {
    ["/usr/bin/chromium", "/usr/bin/google-chrome"].into_iter().find(|path| Path::new(path).exists())
}

pub(crate) struct Browser {
    process: Child,
    commands: File,
    answers: Receiver<Value>,
    session: Value,
    number: u64,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// With a page open; `None` where no browser is installed.
    pub(crate) fn open(url: &str) -> Option<Self> {
        let program = chromium()?;
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args([&input, &output]).status().unwrap().success());
        // It reads commands from descriptor 3, and writes answers to 4.
        let process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<in 4>out"#, program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir=profile"])
            .arg("about:blank")
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each waits for the shell to open the other end.
        let commands = File::options().write(true).open(input).unwrap();
        let answers = BufReader::new(File::open(output).unwrap()).split(0);
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let values = answers.map_while(Result::ok).map(|bytes| serde_json::from_slice(&bytes).unwrap());
            values.into_iter().try_for_each(|value: Value| sender.send(value))
        });
        let mut this = Self { process, commands, answers: receiver, session: Value::Null, number: 0, _folder: folder };
        let targets = this.call("Target.getTargets", json!({}));
        let is_page = |target: &&Value| target["type"] == "page";
        let page = targets["targetInfos"].as_array().unwrap().iter().find(is_page).unwrap()["targetId"].clone();
        let attached = this.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        this.session = attached["sessionId"].clone();
        this.call("Page.enable", json!({}));
        this.call("Page.navigate", json!({"url": url}));
        Some(this)
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.number += 1;
        let mut command = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        self.number
    }

    /// What came of a command.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The answer to a command. Whoever is asked whether he is sure is.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let number = self.send(method, params);
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap();
            if answer["method"] == "Page.javascriptDialogOpening" {
                self.send("Page.handleJavaScriptDialog", json!({"accept": true}));
            }
            if answer["id"] == number {
                return answer;
            }
        }
    }

    /// The value of an expression on the page; none while another page comes.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let result = self.ask("Runtime.evaluate", json!({"expression": expression}))["result"].clone();
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Clicks on what a selector finds, once it is there, can be seen and is enabled.
    pub(crate) fn click(&mut self, selector: &str) {
        let ready = format!(
            "(() => {{ const e = document.querySelector('{selector}'); \
             return Boolean(e && !e.disabled && e.offsetParent !== null); }})()"
        );
        eventually(selector, || self.value(&ready) == true);
        self.value(&format!("document.querySelector('{selector}').click()"));
    }

    /// As `click`, with the pointer: on what lies there for it, and nothing else.
    pub(crate) fn tap(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const e = document.querySelector('{selector}'); if (!e || e.disabled) return ''; \
             e.scrollIntoView({{ block: 'center', behavior: 'instant' }}); const b = e.getBoundingClientRect(); \
             return b.width ? `${{b.left + b.width / 2}} ${{b.top + b.height / 2}}` : ''; }})()"
        );
        let mut place = Vec::new();
        eventually(selector, || {
            let found = self.value(&middle);
            place = found.as_str().unwrap_or_default().split(' ').filter_map(|n| n.parse::<f64>().ok()).collect();
            place.len() == 2
        });
        for kind in ["mousePressed", "mouseReleased"] {
            let (x, y) = (place[0], place[1]);
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key.
    pub(crate) fn key(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Makes the window as wide as this.
    pub(crate) fn widen(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Waits until an element has this text in it.
    pub(crate) fn wait_text(&mut self, id: &str, text: &str) {
        let mut found = Value::Null;
        let end = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < end {
            found = self.value(&format!("document.getElementById('{id}')?.textContent ?? ''"));
            if found.as_str().is_some_and(|found| found.contains(text)) {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("no `{text}` in #{id}: {found}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
