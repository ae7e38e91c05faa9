//! Compares two result files, instruction by instruction and register by register.

use std::{collections::HashMap, fmt};

use crate::{InstructionResult, ResultFile};

/// Difference in a register after an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultDifference {
    /// Text of the instruction, or name of a row of `docs/inferred-hardware.md`.
    pub instruction: String,
    /// Name of the register. The results of a row of `docs/inferred-hardware.md` are stored under the name `words`,
    /// because they come from memory and not from a register.
    pub register: String,
    /// Number of work-items whose results differ, and total number of work-items.
    pub items: (usize, usize),
    /// Number of the first work-item whose results differ, and the value of the register for this work-item in each
    /// file. A value is `None` if the register was not written.
    pub first: (usize, Option<u32>, Option<u32>),
    /// Largest distance between two finite results, in units of the last place; `None` unless the result is an f32.
    pub ulp: Option<u32>,
}

impl fmt::Display for ResultDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResultDifference {
            instruction,
            register,
            items: (items, all),
            first: (item, one, other),
            ulp,
        } = self;
        let word = |word: &Option<u32>| match word {
            Some(word) => format!("{word:#010x}"),
            None => "its previous value".to_owned(),
        };
        let (one, other) = (word(one), word(other));
        write!(
            f,
            "{instruction}: {register} differs in {items} of {all} work-items; the first is {item}, with {one} and {other}"
        )?;
        match ulp {
            Some(ulp) => write!(f, "; finite numbers are at most {ulp} ulp apart"),
            None => Ok(()),
        }
    }
}

/// Result of a comparison of two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Number of instructions and rows with results in both files.
    pub compared: usize,
    /// Number of these instructions and rows with equal results.
    pub same: usize,
    /// Differences in results that AMD's manuals specify, by instruction and register.
    pub specified: Vec<ResultDifference>,
    /// Differences in unspecified results, which may differ between two devices.
    pub unspecified: Vec<ResultDifference>,
    /// Instructions that only the first file contains, and instructions that only the second file contains.
    /// Disassemblers of different releases know different instructions.
    pub only_in: [Vec<String>; 2],
    /// Instructions that the emulated device does not support, for each file.
    pub unsupported: [Vec<String>; 2],
}

/// Compares two result files.
///
/// # Errors
/// Fails if the files have different architectures or different numbers of work-items.
pub fn compare(one: &ResultFile, other: &ResultFile) -> Result<Differences, String> {
    let (first, second) = (one.header.arch(), other.header.arch());
    if first != second {
        return Err(format!(
            "the files are for different architectures, {first} and {second}, whose instructions cannot be compared"
        ));
    }
    if one.header.items != other.header.items {
        let (a, b) = (one.header.items, other.header.items);
        return Err(format!("the files have different inputs: {a} and {b} work-items"));
    }
    let mut all = Differences::default();
    for (index, file) in [one, other].into_iter().enumerate() {
        let lacking = file.results.iter().filter(|result| result.unsupported);
        all.unsupported[index] = lacking.map(|probe| probe.name.clone()).collect();
    }
    let (theirs, ours) = (by_name(other), by_name(one));
    let alone =
        |probes: &[InstructionResult], others: &HashMap<&str, &InstructionResult>| -> Vec<String> {
            let alone = probes.iter().filter(|probe| !others.contains_key(probe.name.as_str()));
            alone.map(|probe| probe.name.clone()).collect()
        };
    all.only_in = [alone(&one.results, &theirs), alone(&other.results, &ours)];
    for result in &one.results {
        let Some(against) = theirs.get(result.name.as_str()) else { continue };
        if result.unsupported || against.unsupported {
            continue;
        }
        all.compared += 1;
        let found = differences(result, against);
        if found.is_empty() {
            all.same += 1;
        } else if result.unspecified || against.unspecified {
            all.unspecified.extend(found);
        } else {
            all.specified.extend(found);
        }
    }
    Ok(all)
}

fn by_name(file: &ResultFile) -> HashMap<&str, &InstructionResult> {
    file.results.iter().map(|probe| (probe.name.as_str(), probe)).collect()
}

fn differences(one: &InstructionResult, other: &InstructionResult) -> Vec<ResultDifference> {
    let mut registers: Vec<&String> = one.registers.keys().chain(other.registers.keys()).collect();
    registers.sort();
    registers.dedup();
    let words = |probe: &InstructionResult, register: &str| -> Vec<Option<u32>> {
        let hex = probe.registers.get(register);
        let words = hex.and_then(|hex| InstructionResult::words(hex)).unwrap_or_default();
        words.into_iter().map(Some).collect()
    };
    let difference = |register: &String| {
        let (mut a, mut b) = (words(one, register), words(other, register));
        let all = a.len().max(b.len());
        a.resize(all, None);
        b.resize(all, None);
        let pairs = || a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b);
        let (item, (first, second)) = pairs().next()?;
        let gives_f32 = one.name.split('_').nth(2).is_some_and(|kind| kind.starts_with("f32"))
            || one.name.split_whitespace().next().is_some_and(|name| name.ends_with("_f32"));
        let is_number =
            gives_f32 && register == "v40" && pairs().all(|(_, (a, b))| a.is_some() && b.is_some());
        let apart = |a: &Option<u32>, b: &Option<u32>| ulp((*a)?, (*b)?);
        let ulp = is_number.then(|| pairs().filter_map(|(_, (a, b))| apart(a, b)).max()).flatten();
        Some(ResultDifference {
            instruction: one.name.clone(),
            register: register.clone(),
            items: (pairs().count(), all),
            first: (item, *first, *second),
            ulp,
        })
    };
    registers.into_iter().filter_map(difference).collect()
}

/// Returns the distance between two f32 numbers in units of the last place; `None` if one of them is not finite.
fn ulp(a: u32, b: u32) -> Option<u32> {
    let place = |bits: u32| {
        let number = f32::from_bits(bits);
        number.is_finite().then(|| {
            let magnitude = i64::from(bits & 0x7fff_ffff);
            if number.is_sign_negative() { -magnitude } else { magnitude }
        })
    };
    Some((place(a)? - place(b)?).unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ITEMS, ResultHeader};

    fn file(gfx: &str, emulated: bool, probes: &[(&str, &str, u32)]) -> ResultFile {
        let header = ResultHeader::new(
            "debian:7.2.4".into(),
            "a device".into(),
            gfx.into(),
            emulated,
            "2026-11-22T00:00:00Z".into(),
        );
        let probe = |(name, register, word): &(&str, &str, u32)| InstructionResult {
            name: (*name).to_owned(),
            unspecified: name.starts_with("the order"),
            unsupported: register.is_empty(),
            registers: (!register.is_empty())
                .then(|| ((*register).to_owned(), InstructionResult::hex(&vec![*word; ITEMS])))
                .into_iter()
                .collect(),
        };
        ResultFile { header, results: probes.iter().map(probe).collect() }
    }

    const ADD: &str = "v_add_f32_e64 v40, v10, v20";
    const MUL: &str = "v_mul_lo_u32 v40, v10, v20";
    const ORDER: &str = "the order in which workgroups come";

    #[test]
    fn result_file_round_trips() {
        let one = file("gfx1151", true, &[(ADD, "v40", 0x3f80_0000), (MUL, "", 0)]);
        let text = one.to_text().unwrap();
        assert_eq!(ResultFile::parse(&text), Ok(one));
        assert!(text.starts_with(r#"{"format":"rocrepro device probe","version":1,"#), "{text}");
        // Files of earlier versions must remain readable, so the names of the fields must not change.
        let words = "3f800000".repeat(ITEMS);
        assert_eq!(
            text.lines().nth(1),
            Some(&*format!(r#"{{"probe":"{ADD}","results":{{"v40":"{words}"}}}}"#))
        );
        assert_eq!(
            text.lines().nth(2),
            Some(&*format!(r#"{{"probe":"{MUL}","lacking":true,"results":{{}}}}"#))
        );
    }

    #[test]
    fn difference_names_the_instruction_and_register() {
        let good =
            file("gfx90a:sramecc+:xnack-", false, &[(ADD, "v40", 0x3f80_0000), (MUL, "v40", 7)]);
        let mut bad = good.clone();
        assert_eq!(
            compare(&good, &bad).unwrap(),
            Differences { compared: 2, same: 2, ..Differences::default() }
        );
        let mut words = vec![0x3f80_0000; ITEMS];
        (words[9], words[200]) = (0x3f80_0002, 0x3f7f_ffff);
        bad.results[0].registers.insert("v40".into(), InstructionResult::hex(&words));
        let found = compare(&good, &bad).unwrap();
        assert_eq!((found.compared, found.same, found.specified.len()), (2, 1, 1));
        assert_eq!(
            found.specified[0].to_string(),
            "v_add_f32_e64 v40, v10, v20: v40 differs in 2 of 512 work-items; the first is 9, with 0x3f800000 and \
             0x3f800002; finite numbers are at most 2 ulp apart"
        );
        // The second file contains a register that the instruction should not have written.
        bad = good.clone();
        bad.results[1].registers.insert("scc".into(), InstructionResult::hex(&vec![1; ITEMS]));
        let found = compare(&good, &bad).unwrap();
        assert_eq!(
            found.specified[0].to_string(),
            "v_mul_lo_u32 v40, v10, v20: scc differs in 512 of 512 work-items; the first is 0, with its previous value \
             and 0x00000001"
        );
    }

    #[test]
    fn unsupported_and_unspecified_results_are_not_differences() {
        let gpu = file("gfx1151", false, &[(ADD, "v40", 1), (MUL, "v40", 7), (ORDER, "words", 1)]);
        let emulated = file("gfx1151", true, &[(MUL, "", 0), (ORDER, "words", 2)]);
        let found = compare(&gpu, &emulated).unwrap();
        assert_eq!(found.specified, []);
        assert_eq!((found.unspecified.len(), found.compared, found.same), (1, 1, 0));
        assert_eq!(found.only_in, [vec![ADD.to_owned()], vec![]]);
        assert_eq!(found.unsupported, [vec![], vec![MUL.to_owned()]]);
    }

    #[test]
    fn rejects_foreign_damaged_and_incomparable_files() {
        let one = file("gfx1151", true, &[(ADD, "v40", 1), (MUL, "v40", 7)]);
        let other = file("gfx90a:xnack-", true, &[(ADD, "v40", 1)]);
        assert_eq!(
            compare(&one, &other).unwrap_err(),
            "the files are for different architectures, gfx1151 and gfx90a, whose instructions cannot be compared"
        );
        let text = one.to_text().unwrap();
        let refused = |text: &str| -> Vec<String> {
            ResultFile::parse(text).unwrap_err().iter().map(ToString::to_string).collect()
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            refused(&lines[..2].join("\n")),
            ["line 2: the file is cut off: its end is missing"]
        );
        assert_eq!(
            refused(&[lines[0], lines[1], lines[3]].join("\n")),
            ["line 3: the file is incomplete: it has 1 of 2 results"]
        );
        let no_file = "line 1: not a result file of `rocrepro device compare`, which begins with {\"format\":\"rocrepro device probe\"";
        for foreign in ["", "{}", "hello", "{\"format\":\"junit\"}"] {
            assert_eq!(refused(foreign), [no_file]);
        }
        assert_eq!(
            refused(&text.replacen("\"version\":1", "\"version\":2", 1)),
            ["line 1: the format has version 2; this rocrepro reads version 1"]
        );
        let broken = text.replacen("00000001", "0000000x", 1).replacen("00000007", "", 1);
        assert_eq!(
            refused(&broken),
            [
                format!("line 2: `{ADD}`: v40 does not have words of eight hexadecimal digits"),
                format!("line 3: `{MUL}`: v40 has 511 words instead of 512"),
            ]
        );
    }
}
