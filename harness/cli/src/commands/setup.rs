//! Reads the options about the stack, the device and the injected faults, which most commands share.

use device::{Config, Fault, FaultPlace, FaultSpec, Level, ParseFaultError, Sanitize};

use crate::args::Emulation;
use engine::{DeviceChoice, SessionOptions, Stop, case_names::spelling_hint};

/// Reads the same options as [`setup_at_any_level`], for a command that supports only the default level, at which the
/// emulated device replaces the HSA runtime.
///
/// # Errors
/// Returns all invalid options. If the options are valid, returns an error for another level.
pub(super) fn setup<'a, On>(
    on: &'a On,
    emulation: Option<&Emulation>,
    texts: &[String],
) -> Result<(SessionOptions, Vec<FaultSpec>), Stop>
where
    SessionOptions: TryFrom<&'a On, Error = Stop>,
{
    let set_up = setup_at_any_level(on, emulation, texts)?;
    match set_up.0.emulation.level {
        Level::Hsa => Ok(set_up),
        level => Err(Stop::usage(format!(
            "error: `--device-option level={level}` works only with `rocrepro run`"
        ))),
    }
}

/// Reads the options about the stack, the emulated device and the injected faults, for a command that supports every
/// level of the emulated device (`--device-option level=`).
///
/// # Errors
/// Returns all invalid options.
pub(super) fn setup_at_any_level<'a, On>(
    on: &'a On,
    emulation: Option<&Emulation>,
    texts: &[String],
) -> Result<(SessionOptions, Vec<FaultSpec>), Stop>
where
    SessionOptions: TryFrom<&'a On, Error = Stop>,
{
    let options = SessionOptions::try_from(on);
    let arch = options.as_ref().map_or(Config::default().arch, |options| options.emulation.arch);
    let usual = Config::for_arch(arch, Sanitize::Off);
    let set_up = emulation.map_or_else(|| Ok(usual.clone()), |options| options.config(arch));
    let described = Stop::both(options, set_up);
    let ((options, set_up), faults) = Stop::both(described, faults(texts))?;
    let on_device = faults.iter().any(|planted| planted.fault.place() == FaultPlace::Device);
    let device_options = emulation.map(|options| options.device_option.clone()).unwrap_or_default();
    if options.device == DeviceChoice::Gpu
        && (on_device || set_up != usual || !device_options.is_empty())
    {
        return Err(Stop::usage(
            "error: faults below the HIP runtime, schedules, the sanitizer and device options need the emulated \
             device; use `--device emulated`",
        ));
    }
    if set_up.level != Level::Hsa && on_device {
        return Err(Stop::usage(format!(
            "error: faults below the HIP runtime cannot be injected with `--device-option level={}`",
            set_up.level
        )));
    }
    Ok((SessionOptions { emulation: set_up, device_options, ..options }, faults))
}

fn faults(texts: &[String]) -> Result<Vec<FaultSpec>, Stop> {
    let mut faults: Vec<FaultSpec> = Vec::new();
    let mut problems = Vec::new();
    for text in texts {
        match parse_fault(text) {
            Ok(planted) if faults.iter().any(|other| other.fault == planted.fault) => {
                problems.push(format!("error: fault `{}` is given twice", planted.fault));
            }
            Ok(planted) => faults.push(planted),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(faults) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Parses a fault, for example `copy.zero` or `copy.late,ms=50,probability=0.2,seed=7`.
fn parse_fault(text: &str) -> Result<FaultSpec, String> {
    text.parse().map_err(|problem| match problem {
        ParseFaultError::Fault(name) => {
            let known = Fault::ALL.iter().map(|fault| fault.name());
            format!("error: unknown fault `{name}`; {}", spelling_hint(&name, known))
        }
        ParseFaultError::Parameters(mistakes) => {
            let mistakes: Vec<_> = mistakes.iter().map(|m| format!("error: {m}")).collect();
            mistakes.join("\n")
        }
    })
}
