//! A browser that is told what to do: Chromium by its protocol for tools (CDP), over two pipes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{PATIENCE, comes, eventually};

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

    /// Where something is on the page: left, top, width, height of what a selector finds, once it is there and stays there; scrolled into view.
    pub(crate) fn place(&mut self, selector: &str) -> [f64; 4] {
        let there = format!("document.querySelector('{selector}')?.getBoundingClientRect().width > 0");
        eventually(selector, || self.value(&there) == true);
        let place = format!(
            "(() => {{ const e = document.querySelector('{selector}'); e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height].join(' '); }})()"
        );
        // What comes in above it moves it, and a click would go beside it.
        let mut last = Value::Null;
        eventually(selector, || {
            let now = self.value(&place);
            let stays = now.is_string() && now == last;
            last = now;
            stays
        });
        let numbers: Vec<f64> = last.as_str().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    /// A mouse event at a place of the window: `mousePressed`, `mouseMoved` or `mouseReleased`, of the so-many-th click.
    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), clicks: u32) {
        let held = u32::from(kind != "mouseReleased");
        let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": held, "clickCount": clicks});
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Clicks at a place, so many times.
    pub(crate) fn click_at(&mut self, place: (f64, f64), times: u32) {
        for click in 1..=times {
            self.mouse("mousePressed", place, click);
            self.mouse("mouseReleased", place, click);
        }
    }

    /// As `click`, with the pointer: on what lies there for it, and nothing else.
    pub(crate) fn tap(&mut self, selector: &str) {
        let enabled = format!("document.querySelector('{selector}')?.disabled === false");
        eventually(selector, || self.value(&enabled) == true);
        let [left, top, width, height] = self.place(selector);
        self.click_at((left + width / 2.0, top + height / 2.0), 1);
    }

    /// Presses the button at a place and lets it go at another.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let between = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        self.mouse("mousePressed", from, 1);
        self.mouse("mouseMoved", between, 1);
        self.mouse("mouseMoved", to, 1);
        self.mouse("mouseReleased", to, 1);
    }

    /// Touches a place with a finger, and takes it away at another.
    pub(crate) fn touch(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": true}));
        let at = |place: (f64, f64)| json!([{"x": place.0, "y": place.1}]);
        self.call("Input.dispatchTouchEvent", json!({"type": "touchStart", "touchPoints": at(from)}));
        if from != to {
            self.call("Input.dispatchTouchEvent", json!({"type": "touchMove", "touchPoints": at(to)}));
        }
        self.call("Input.dispatchTouchEvent", json!({"type": "touchEnd", "touchPoints": []}));
    }

    /// Presses a key and lets it go: to whatever has the focus.
    pub(crate) fn key(&mut self, key: &str) {
        // What a key does by itself, such as Enter on a button, goes by its number.
        let number = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "Delete" => 46,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number, "text": text}),
            );
        }
    }

    /// Makes the window as wide as this.
    pub(crate) fn widen(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// A picture of the upper part of the page, this wide and high, or of what a selector finds, as PNG.
    pub(crate) fn shot(&mut self, width: u32, height: f64, part: Option<&str>) -> Vec<u8> {
        let [mut left, mut top, mut across, mut down] = [0.0, 0.0, f64::from(width), height];
        if let Some(selector) = part {
            [left, top, across, down] = self.place(selector);
            top += self.value("window.scrollY").as_f64().unwrap();
        }
        let clip = json!({"x": left, "y": top, "width": across, "height": down, "scale": 1});
        let shot = self.call("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}));
        STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// Waits until an element has this text in it.
    pub(crate) fn wait_text(&mut self, id: &str, text: &str) {
        let mut found = Value::Null;
        let is_shown = comes(|| {
            found = self.value(&format!("document.getElementById('{id}')?.textContent ?? ''"));
            found.as_str().is_some_and(|found| found.contains(text))
        });
        assert!(is_shown, "no `{text}` in #{id}: {found}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
