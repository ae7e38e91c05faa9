//! Checks the licence and the source of every package, including packages that only tests need, against deny.toml.
//! `cargo deny` checks more, for example advisories. Only the workflow runs `cargo deny`, because it needs the network
//! and takes long to compile.

use serde_json::Value;
use spdx::{Expression, LicenseReq, Licensee, ParseMode};
use xshell::{Shell, cmd};

/// The only source from which packages outside of this repository may come.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the packages in Cargo.lock.
///
/// # Errors
/// Returns every package whose licence or source is not allowed.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let list: toml::Table = sh.read_file("deny.toml")?.parse()?;
    let allowed = list.get("licenses").and_then(|licences| licences.get("allow")?.as_array());
    let allowed = allowed.ok_or("deny.toml has no list of allowed licences")?;
    let allowed = allowed.iter().filter_map(toml::Value::as_str).map(Licensee::parse);
    let allowed = allowed.collect::<Result<Vec<Licensee>, _>>()?;
    let metadata = cmd!(sh, "cargo metadata --format-version 1 --locked").quiet().read()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let problems: Vec<String> =
        packages.iter().filter_map(|package| problem(package, &allowed)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

fn problem(package: &Value, allowed: &[Licensee]) -> Option<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let source = package["source"].as_str();
    if source.is_some_and(|source| source != REGISTRY) {
        return Some(format!("{name} comes from {}, and not from crates.io", package["source"]));
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} declares no licence"));
    };
    let is_allowed = |wanted: &LicenseReq| allowed.iter().any(|one| one.satisfies(wanted));
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(terms) if terms.evaluate(is_allowed) => None,
        Ok(_) => Some(format!("{name} has a licence that deny.toml does not allow: {licence}")),
        Err(error) => Some(format!("{name} has a licence that cannot be parsed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_forbidden_licences_and_sources() {
        let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"];
        let allowed = allowed.map(|one| Licensee::parse(one).expect("a licence"));
        let problem = |licence: Value, source: Value| {
            let package =
                json!({"name": "p", "version": "1.0.0", "license": licence, "source": source});
            problem(&package, &allowed)
        };
        let ours = Value::Null;
        assert_eq!(problem(json!("MIT"), json!(REGISTRY)), None);
        assert_eq!(problem(json!("GPL-3.0-only OR MIT"), ours.clone()), None);
        assert_eq!(problem(json!("MIT/Apache-2.0"), ours.clone()), None);
        assert_eq!(problem(json!("Apache-2.0 WITH LLVM-exception"), ours.clone()), None);
        let cases = [
            (json!("GPL-3.0-only"), ours.clone(), "does not allow"),
            (json!("MIT AND GPL-3.0-only"), ours.clone(), "does not allow"),
            (json!("Apache-2.0"), ours.clone(), "does not allow"),
            (json!("of my own"), ours.clone(), "cannot be parsed"),
            (Value::Null, ours, "declares no licence"),
            (json!("MIT"), json!("git+https://example.com/p"), "comes from"),
        ];
        for (licence, source, why) in cases {
            let said = problem(licence.clone(), source).expect("a problem");
            assert!(said.contains(why), "{licence}: {said}");
        }
    }
}
