//! What made a finished model: the program's commit and the engine. Models of several programs may share a table; it then
//! names them.

use std::collections::BTreeMap;

use nae_train::commit;
use nae_train::engine::Engine;
use serde::{Deserialize, Serialize};

/// What made a finished model; records of earlier versions have neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The [commit] of the program that finished it, if that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The engine that computed its gradients; experiments without `--engine` do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
}

impl Origin {
    /// A model that this program finishes; `engine` is `None` where there is no choice.
    pub(super) fn here(engine: Option<Engine>) -> Self {
        Self { commit: commit::get(), engine }
    }
}

/// The note below a table whose models are of several commits or engines; empty if they are of one.
pub(crate) fn note<'a>(origins: impl Iterator<Item = &'a Origin>) -> String {
    let (mut commits, mut engines) = (BTreeMap::new(), BTreeMap::new());
    for origin in origins {
        *commits.entry(origin.commit.clone().unwrap_or_else(|| "not recorded".to_owned())).or_insert(0) += 1;
        let engine = match origin.engine {
            Some(Engine::Cpu) => "cpu",
            Some(Engine::Burn) => "burn",
            None => "not recorded",
        };
        *engines.entry(engine.to_owned()).or_insert(0) += 1;
    }
    [("commits", commits), ("engines", engines)].into_iter().map(|(what, counts)| several(what, &counts)).collect()
}

fn several(what: &str, counts: &BTreeMap<String, usize>) -> String {
    if counts.len() < 2 {
        return String::new();
    }
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    format!("\nThe models are of several {what}: {}.", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_commits_and_engines_only_where_there_are_several() {
        let of = |commit: Option<&str>, engine| Origin { commit: commit.map(str::to_owned), engine };
        let one = of(Some("abc"), Some(Engine::Cpu));
        assert_eq!(note([&one, &one].into_iter()), "");
        let earlier = of(None, Some(Engine::Cpu));
        let said = "\nThe models are of several commits: abc (2), not recorded (1).";
        assert_eq!(note([&one, &earlier, &one].into_iter()), said);
        let burn = of(Some("abc"), Some(Engine::Burn));
        assert_eq!(note([&one, &burn].into_iter()), "\nThe models are of several engines: burn (1), cpu (1).");
    }
}
