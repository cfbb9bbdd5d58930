//! The information of `tutti info` as JSON, for scripts.

use serde_json::{Map, Value, json};
use tutti_base::config::{Audience, Config, SETTINGS};

use super::functions::{FUNCTIONS, implemented};
use crate::measure::machine;

/// Describes installation, machine, networks and all settings.
pub fn everything(config: &Config) -> Value {
    let default = Config::default();
    let settings = SETTINGS.iter().map(|setting| {
        json!({
            "name": setting.name,
            "value": setting.show(config),
            "default": setting.show(&default),
            "type": setting.kind.to_string(),
            "for": if setting.audience == Audience::User { "users" } else { "developers" },
            "meaning": setting.doc,
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "standard": "MPI 5.0, standard ABI 1.0",
        "functions": { "implemented": implemented(), "all": FUNCTIONS.len() },
        "machine": pairs(&machine::describe()),
        "networks": pairs(&machine::networks(config)),
        "single_copy": machine::single_copy(),
        "settings": settings.collect::<Vec<_>>(),
    })
}

/// Returns lines of the form `name: value` as an object.
fn pairs(lines: &[String]) -> Map<String, Value> {
    lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_string(), json!(value)))
        .collect()
}
