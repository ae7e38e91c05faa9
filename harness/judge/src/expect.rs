use std::cmp::Ordering;

/// Returns true if a status is one of the accepted names. `any` accepts every status. The success name of any library,
/// for example `hipSuccess` or `HIPRAND_STATUS_SUCCESS`, accepts status code 0.
pub(crate) fn status_fits(names: &[String], code: i32, status: &str) -> bool {
    names.iter().any(|name| name == status || name == "any" || (code == 0 && is_success(name)))
}

fn is_success(name: &str) -> bool {
    name == "hipSuccess" || name.to_ascii_lowercase().ends_with("_success")
}

/// Returns true if a value is one of the accepted values, which are texts, `any`, or bounds such as `>=1`.
pub(crate) fn value_fits(wanted: &[String], value: &str) -> bool {
    wanted.iter().any(|w| w == value || w == "any" || bound_holds(w, value).unwrap_or(false))
}

/// Returns true if an elapsed time is plausible, given the first elapsed time of the trial (both in microseconds). A
/// plausible time is not negative and at most 20 times the first time plus one second. The second is added because
/// other load on the host can delay short work by nearly one second.
pub(crate) fn is_steady(first: i128, time: i128) -> bool {
    time >= 0 && time <= first.saturating_mul(20).saturating_add(1_000_000)
}

/// Compares a value with a bound such as `>=1`. Returns `None` if `bound` is not a bound or `value` is not a number.
fn bound_holds(bound: &str, value: &str) -> Option<bool> {
    let allowed: (&[Ordering], &str) = [
        (">=", [Ordering::Greater, Ordering::Equal].as_slice()),
        ("<=", &[Ordering::Less, Ordering::Equal]),
        (">", &[Ordering::Greater]),
        ("<", &[Ordering::Less]),
    ]
    .iter()
    .find_map(|(sign, allowed)| Some((*allowed, bound.strip_prefix(sign)?)))?;
    let limit: i128 = allowed.1.trim().parse().ok()?;
    let value: i128 = value.trim().parse().ok()?;
    Some(allowed.0.contains(&value.cmp(&limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn values_match_text_or_bound() {
        let check = |wanted: &str, value: &str, fits: bool| {
            assert_eq!(value_fits(&list(wanted), value), fits, "{value} in [{wanted}]");
        };
        check("active", "active", true);
        check("active", "none", false);
        check("none active", "active", true);
        check(">=1", "1", true);
        check(">=1", "0", false);
        check(">=1", "one", false);
        check("<=3", "3", true);
        check(">3", "3", false);
        check("<3", "-1", true);
        check("0 >10", "11", true);
        check("any", "whatever", true);
        check("", "0", false);
    }

    #[test]
    fn steady_times_have_an_upper_limit() {
        let check = |first, time, steady| assert_eq!(is_steady(first, time), steady, "{time}");
        check(3_000, 3_000, true);
        check(3_000, 900_000, true);
        check(3_000, 1_060_000, true);
        check(3_000, 1_060_001, false);
        check(0, 1, true);
        check(-1, -1, false);
    }

    #[test]
    fn statuses_match_names_or_success() {
        let check = |names: &str, code: i32, status: &str, fits: bool| {
            assert_eq!(status_fits(&list(names), code, status), fits, "{status} in [{names}]");
        };
        check("hipSuccess", 0, "hipSuccess", true);
        check("hipSuccess", 0, "HIPRAND_STATUS_SUCCESS", true);
        check("hipSuccess", 1, "hipErrorInvalidValue", false);
        check("hipErrorInvalidValue", 0, "hipSuccess", false);
        check("hipErrorA hipErrorB", 2, "hipErrorB", true);
        check("any", 900, "hipErrorX", true);
    }
}
