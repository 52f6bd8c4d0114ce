//! Words for what is not normal, as names of folders and values of categories.

/// In lower case, without signs between words.
const WORDS: [&str; 21] = [
    "abnormal",
    "anomalies",
    "anomalous",
    "anomaly",
    "attack",
    "bad",
    "defect",
    "defective",
    "defects",
    "fail",
    "failed",
    "failure",
    "fault",
    "faulty",
    "faults",
    "ng",
    "nok",
    "notok",
    "outlier",
    "outliers",
    "rejected",
];

/// Letters and digits of `text` in lower case: `Not OK`, `not_ok` and `notOK` are one word.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether `text` is one of these words.
pub(crate) fn means_not_normal(text: &str) -> bool {
    WORDS.contains(&plain(text).as_str())
}
