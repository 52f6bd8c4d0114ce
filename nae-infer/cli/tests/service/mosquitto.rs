//! A broker, Mosquitto, with the certificates that a test makes by `openssl`, and someone who listens there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::alarms::Absent;
use crate::harness::{PATIENCE, Place};

/// Listeners so far.
static NAMES: AtomicUsize = AtomicUsize::new(0);

/// Debian's package, if it is installed.
pub(crate) fn mosquitto() -> Option<&'static str> {
    let found = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("skipped: mosquitto is not installed");
    }
    found
}

/// A broker that is started, stopped, and started again. It keeps what is retained, and its clients' sessions.
pub(crate) struct Broker {
    program: &'static str,
    folder: PathBuf,
    settings: String,
    /// For the service, and for the test to listen at.
    ports: [Absent; 2],
    process: Option<Child>,
}

impl Broker {
    /// Not started. `settings` are those of the service's port.
    pub(crate) fn new(program: &'static str, place: &Place, settings: &str) -> Self {
        let folder = place.path("broker");
        std::fs::create_dir(&folder).unwrap();
        Self { program, folder, settings: settings.to_owned(), ports: [Absent::new(), Absent::new()], process: None }
    }

    /// Started, for anybody to use; none where it is not installed.
    pub(crate) fn open(place: &Place) -> Option<Self> {
        let mut broker = Self::new(mosquitto()?, place, "allow_anonymous true");
        broker.start();
        Some(broker)
    }

    /// Where the service finds it, without encryption.
    pub(crate) fn address(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port())
    }

    /// The service's port.
    pub(crate) fn port(&self) -> u16 {
        self.ports[0].address().port()
    }

    pub(crate) fn start(&mut self) {
        let folder = self.folder.display();
        let [port, own] = self.ports.each_ref().map(|port| port.address().port());
        let settings = format!(
            "per_listener_settings true\npersistence true\npersistence_location {folder}/\nlog_dest file {folder}/log\n\
             log_type all\nuser root\nlistener {own} 127.0.0.1\nallow_anonymous true\n\
             listener {port} 127.0.0.1\n{}\n",
            self.settings
        );
        let path = self.folder.join("mosquitto.conf");
        std::fs::write(&path, settings).unwrap();
        let process = Command::new(self.program).arg("-c").arg(path).stderr(Stdio::null()).spawn().unwrap();
        self.process = Some(process);
    }

    /// As a computer that is shut down does.
    pub(crate) fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        let status = Command::new("kill").arg(process.id().to_string()).status().unwrap();
        assert!(status.success());
        process.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// What comes under `topic` from now on, what is retained first; also what comes while the broker is down.
    pub(crate) fn listen(&self, topic: &str) -> Messages {
        let address = ("127.0.0.1".to_owned(), self.ports[1].address().port());
        let name = format!("test-{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let mut options = rumqttc::MqttOptions::new(name, address);
        options.set_clean_session(false).set_max_packet_size(1 << 20, 1 << 20);
        let (client, mut connection) = rumqttc::Client::builder(options).capacity(8).build();
        client.subscribe(topic, rumqttc::QoS::AtLeastOnce).unwrap();
        let (sender, received) = channel();
        let (subscribed, wait_subscribed) = channel();
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        thread::spawn(move || {
            let _client = client;
            for event in connection.iter() {
                match event {
                    Ok(rumqttc::Event::Incoming(rumqttc::Packet::SubAck(_))) => subscribed.send(()).unwrap(),
                    Ok(rumqttc::Event::Incoming(rumqttc::Packet::Publish(message))) => {
                        let topic = String::from_utf8(message.topic.to_vec()).unwrap();
                        let message = Message { topic, payload: message.payload.to_vec(), retain: message.retain };
                        if sender.send(message).is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    // Its port may be somebody else's by now.
                    Err(_) if is_wanted.strong_count() == 0 => return,
                    // The broker is not up yet, or not any more.
                    Err(_) => thread::sleep(Duration::from_millis(50)),
                }
            }
        });
        wait_subscribed.recv_timeout(PATIENCE).unwrap();
        Messages { received, _wanted: wanted }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) retain: bool,
}

impl Message {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap_or_else(|_| panic!("{}: {}", self.topic, self.text()))
    }
}

/// What comes at a broker, as long as this is kept.
pub(crate) struct Messages {
    received: Receiver<Message>,
    _wanted: Arc<()>,
}

impl Messages {
    /// The next message that is one of these.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&Message) -> bool) -> Message {
        let end = Instant::now() + 2 * PATIENCE;
        let mut others = Vec::new();
        while let Ok(message) = self.received.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if wanted(&message) {
                return message;
            }
            others.push(format!("{} {}", message.topic, message.text()));
        }
        panic!("timed out waiting: {what}; came\n{}", others.join("\n"));
    }

    /// Whether nothing comes for this time.
    pub(crate) fn is_quiet(&self, time: Duration) -> bool {
        self.received.recv_timeout(time).is_err()
    }

    /// Numbers of the alarms that come, until the last is `last`.
    pub(crate) fn numbers(&self, last: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.last() != Some(&last) {
            let alarm = self.wait("an alarm", |message| message.json()["number"].is_u64());
            numbers.push(alarm.json()["number"].as_u64().unwrap());
        }
        numbers
    }
}

/// Runs openssl in the folder.
pub(crate) fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority: `NAME.pem` and `NAME.key` in the folder.
pub(crate) fn authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ),
    );
}

/// A certificate of the authority: `NAME.pem` and `NAME.key`. One of 0 days has expired a second later.
pub(crate) fn certificate(folder: &Path, authority: &str, name: &str, days: u32) {
    openssl(
        folder,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ),
    );
    std::fs::write(folder.join("extensions"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days {days} -extfile extensions -out {name}.pem"
        ),
    );
}
