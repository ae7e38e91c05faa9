//! Configuration of the device. A process reads it once, from the environment.

use std::sync::OnceLock;

use aql::report;
use device::{CONFIG_VARIABLE, Config, Level};

/// Parses the configuration. Rejects a configuration that requests anything that the device cannot do at this level.
fn parse(json: &str) -> Result<Config, String> {
    let config: Config =
        serde_json::from_str(json).map_err(|error| format!("{CONFIG_VARIABLE}: {error}"))?;
    if config.level != Level::Thunk {
        return Err(format!("this device library does not implement the level `{}`", config.level));
    }
    config.mistake().map_or(Ok(config), Err)
}

/// Returns the configuration for a process whose environment contains none.
fn usual() -> Config {
    Config { level: Level::Thunk, ..Config::default() }
}

fn read() -> Result<Config, String> {
    match std::env::var(CONFIG_VARIABLE) {
        Ok(json) => parse(&json),
        Err(std::env::VarError::NotPresent) => Ok(usual()),
        Err(error) => Err(format!("{CONFIG_VARIABLE}: {error}")),
    }
}

/// Returns the configuration; `None` if the environment variable is invalid, in which case the reason is reported once.
pub(crate) fn valid() -> Option<&'static Config> {
    static CONFIG: OnceLock<Option<Config>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| read().map_err(report::bad_configuration).ok());
    config.as_ref()
}

/// Returns the configuration, or the default if the environment variable is invalid. The device cannot be opened in
/// that case, so only unit tests continue.
pub(crate) fn get() -> &'static Config {
    static DEFAULT: OnceLock<Config> = OnceLock::new();
    valid().unwrap_or_else(|| DEFAULT.get_or_init(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_what_this_level_cannot_do() {
        #[track_caller]
        fn check(json: &str, ok: bool) {
            assert_eq!(parse(json).is_ok(), ok, "{json}: {:?}", parse(json));
        }
        check(r#"{"level":"thunk"}"#, true);
        check(r#"{"level":"thunk","arch":"gfx90a","memory":1048576,"devices":2}"#, true);
        check("{}", false);
        check(r#"{"level":"hsa"}"#, false);
        check(r#"{"level":"thunk","faults":[{"fault":"copy.zero"}]}"#, false);
        check(r#"{"level":"thunk","sanitize":"stop"}"#, false);
        check(r#"{"level":"thunk","schedule":"lazy"}"#, false);
    }
}
