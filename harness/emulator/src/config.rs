//! Configuration of a device. A process reads the configuration of its device once, from the environment.

use device::{CONFIG_VARIABLE, Config, Identity, Level};

use crate::part::DeviceComponent as _;

fn read() -> Result<Config, String> {
    match std::env::var(CONFIG_VARIABLE) {
        Ok(json) => parse(&json),
        Err(std::env::VarError::NotPresent) => Ok(Config::default()),
        Err(error) => Err(format!("{CONFIG_VARIABLE}: {error}")),
    }
}

fn parse(json: &str) -> Result<Config, String> {
    let config: Config =
        serde_json::from_str(json).map_err(|error| format!("{CONFIG_VARIABLE}: {error}"))?;
    if let Some(mistake) = config.mistake() {
        return Err(mistake);
    }
    if config.level != Level::Hsa {
        return Err(format!("this device library does not implement the level `{}`", config.level));
    }
    for planted in &config.faults {
        if planted.fault.place() != device::FaultPlace::Device {
            return Err(format!(
                "the fault `{}` is injected at calls, not in the device",
                planted.fault
            ));
        }
        let mistakes = planted.mistakes();
        if !mistakes.is_empty() {
            return Err(mistakes.join("; "));
        }
    }
    Ok(config)
}

/// Configuration of a device, or the reason why it is invalid.
pub(crate) struct Configuration {
    config: Config,
    problem: Option<String>,
}

impl Configuration {
    /// Reads the configuration from the environment. If the configuration is invalid, `hsa_init` fails. Only unit tests
    /// continue then, with the default configuration.
    pub(crate) fn of_environment() -> Configuration {
        read().map_or_else(
            |problem| Configuration { config: Config::default(), problem: Some(problem) },
            Configuration::from,
        )
    }

    pub(crate) fn get(&self) -> &Config {
        &self.config
    }
}

impl From<Config> for Configuration {
    fn from(config: Config) -> Configuration {
        Configuration { config, problem: None }
    }
}

/// Returns the configuration of this thread's device, or the reason why [`device::CONFIG_VARIABLE`] is invalid.
pub(crate) fn result() -> Result<&'static Config, &'static str> {
    let Configuration { config, problem } = Configuration::current();
    problem.as_deref().map_or(Ok(config), Err)
}

/// Returns the configuration of this thread's device, or the default if [`device::CONFIG_VARIABLE`] is invalid.
pub(crate) fn get() -> &'static Config {
    Configuration::current().get()
}

pub(crate) fn identity() -> Identity {
    Identity { version: env!("CARGO_PKG_VERSION").to_owned(), config: get().clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, ok: bool) {
        assert_eq!(parse(json).is_ok(), ok, "{json}: {:?}", parse(json));
    }

    #[test]
    fn accepts_only_device_faults_with_valid_probability() {
        check("{}", true);
        check(r#"{"arch":"gfx90a","memory":1048576}"#, true);
        check(r#"{"arch":"gfx803"}"#, false);
        check("gfx90a", false);
        check(r#"{"level":"thunk"}"#, false);
        check(r#"{"gtt":1048576}"#, true);
        check(r#"{"arch":"gfx90a","gtt":1048576}"#, false);
        check(r#"{"faults":[{"fault":"copy.zero"}]}"#, true);
        check(r#"{"faults":[{"fault":"copy.zero","probability":1.5}]}"#, false);
        check(r#"{"faults":[{"fault":"handle.crash"}]}"#, false);
    }
}
