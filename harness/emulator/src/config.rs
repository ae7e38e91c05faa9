//! The configuration of this process, read once.

use std::sync::OnceLock;

use device::{CONFIG_VARIABLE, Config};

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
    for planted in &config.faults {
        if planted.fault.place() != device::Place::Device {
            return Err(format!("the fault `{}` is not one of the device", planted.fault));
        }
        let mistakes = planted.mistakes();
        if !mistakes.is_empty() {
            return Err(mistakes.join("; "));
        }
    }
    Ok(config)
}

/// The configuration, or what is wrong with the environment variable.
pub(crate) fn result() -> Result<&'static Config, &'static str> {
    static CONFIG: OnceLock<Result<Config, String>> = OnceLock::new();
    CONFIG.get_or_init(read).as_ref().map_err(String::as_str)
}

/// The configuration in force. A bad one stopped `hsa_init`, so what runs later falls back to the
/// default only in unit tests.
pub(crate) fn get() -> &'static Config {
    static DEFAULT: OnceLock<Config> = OnceLock::new();
    result().unwrap_or_else(|_| DEFAULT.get_or_init(Config::default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, ok: bool) {
        assert_eq!(parse(json).is_ok(), ok, "{json}: {:?}", parse(json));
    }

    #[test]
    fn only_faults_of_the_device_with_a_real_probability_are_accepted() {
        check("{}", true);
        check(r#"{"arch":"gfx90a","memory":1048576}"#, true);
        check(r#"{"arch":"gfx803"}"#, false);
        check("gfx90a", false);
        check(r#"{"gtt":1048576}"#, true);
        check(r#"{"arch":"gfx90a","gtt":1048576}"#, false);
        check(r#"{"faults":[{"fault":"copy.zero"}]}"#, true);
        check(r#"{"faults":[{"fault":"copy.zero","probability":1.5}]}"#, false);
        check(r#"{"faults":[{"fault":"handle.crash"}]}"#, false);
    }
}
