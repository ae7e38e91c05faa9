//! What two result files say otherwise.

use std::{collections::HashMap, fmt};

use crate::{File, Probe};

/// One register of one probe that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The instruction, or the row.
    pub probe: String,
    /// The register; `words` in a row.
    pub register: String,
    /// In how many work-items, of how many.
    pub items: (usize, usize),
    /// The first of them, and what it holds in each file; none where the register kept what it held.
    pub first: (usize, Option<u32>, Option<u32>),
    /// How far finite numbers are apart at most, in units of the last place, where the instruction gives f32.
    pub ulp: Option<u32>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { probe, register, items: (items, all), first: (item, one, other), ulp } =
            self;
        let word = |word: &Option<u32>| match word {
            Some(word) => format!("{word:#010x}"),
            None => "what it held before".to_owned(),
        };
        let (one, other) = (word(one), word(other));
        write!(
            f,
            "{probe}: {register} differs in {items} of {all} work-items; the first is {item}, with {one} and {other}"
        )?;
        match ulp {
            Some(ulp) => write!(f, "; finite numbers are at most {ulp} ulp apart"),
            None => Ok(()),
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Probes that both have, and how many of them are the same.
    pub compared: usize,
    /// Those that are the same.
    pub same: usize,
    /// What differs, by probe and register.
    pub differ: Vec<Difference>,
    /// The same of rows of which hardware promises nothing.
    pub free: Vec<Difference>,
    /// Probes that only the first file has, and only the second: another disassembler knows other instructions.
    pub alone: [Vec<String>; 2],
    /// Probes that the emulated device lacks, in the first and in the second file.
    pub lacking: [Vec<String>; 2],
}

/// Compares two files.
///
/// # Errors
/// They are of different architectures: in words.
pub fn compare(one: &File, other: &File) -> Result<Differences, String> {
    let (first, second) = (one.header.arch(), other.header.arch());
    if first != second {
        return Err(format!(
            "the files are of different architectures, {first} and {second}: an instruction of one is not that of the other"
        ));
    }
    if one.header.items != other.header.items {
        let (a, b) = (one.header.items, other.header.items);
        return Err(format!("the files are of different inputs: {a} and {b} work-items"));
    }
    let mut all = Differences::default();
    for (index, file) in [one, other].into_iter().enumerate() {
        let lacking = file.probes.iter().filter(|probe| probe.lacking);
        all.lacking[index] = lacking.map(|probe| probe.probe.clone()).collect();
    }
    let (theirs, ours) = (by_name(other), by_name(one));
    let alone = |probes: &[Probe], others: &HashMap<&str, &Probe>| -> Vec<String> {
        let alone = probes.iter().filter(|probe| !others.contains_key(probe.probe.as_str()));
        alone.map(|probe| probe.probe.clone()).collect()
    };
    all.alone = [alone(&one.probes, &theirs), alone(&other.probes, &ours)];
    for probe in &one.probes {
        let Some(against) = theirs.get(probe.probe.as_str()) else { continue };
        if probe.lacking || against.lacking {
            continue;
        }
        all.compared += 1;
        let found = differences(probe, against);
        if found.is_empty() {
            all.same += 1;
        } else if probe.free || against.free {
            all.free.extend(found);
        } else {
            all.differ.extend(found);
        }
    }
    Ok(all)
}

/// The probes of a file, by their names.
fn by_name(file: &File) -> HashMap<&str, &Probe> {
    file.probes.iter().map(|probe| (probe.probe.as_str(), probe)).collect()
}

fn differences(one: &Probe, other: &Probe) -> Vec<Difference> {
    let mut registers: Vec<&String> = one.results.keys().chain(other.results.keys()).collect();
    registers.sort();
    registers.dedup();
    let words = |probe: &Probe, register: &str| -> Vec<Option<u32>> {
        let hex = probe.results.get(register);
        let words = hex.and_then(|hex| Probe::words(hex)).unwrap_or_default();
        words.into_iter().map(Some).collect()
    };
    let difference = |register: &String| {
        let (mut a, mut b) = (words(one, register), words(other, register));
        let all = a.len().max(b.len());
        a.resize(all, None);
        b.resize(all, None);
        let pairs = || a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b);
        let (item, (first, second)) = pairs().next()?;
        let gives_f32 = one.probe.split('_').nth(2).is_some_and(|kind| kind.starts_with("f32"))
            || one.probe.split_whitespace().next().is_some_and(|name| name.ends_with("_f32"));
        let is_number =
            gives_f32 && register == "v40" && pairs().all(|(_, (a, b))| a.is_some() && b.is_some());
        let apart = |a: &Option<u32>, b: &Option<u32>| ulp((*a)?, (*b)?);
        let ulp = is_number.then(|| pairs().filter_map(|(_, (a, b))| apart(a, b)).max()).flatten();
        Some(Difference {
            probe: one.probe.clone(),
            register: register.clone(),
            items: (pairs().count(), all),
            first: (item, *first, *second),
            ulp,
        })
    };
    registers.into_iter().filter_map(difference).collect()
}

/// How many numbers of 32 bits lie between two finite ones.
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
    use crate::{Header, ITEMS};

    fn file(gfx: &str, emulated: bool, probes: &[(&str, &str, u32)]) -> File {
        let header = Header::new(
            "debian:7.2.4".into(),
            "a device".into(),
            gfx.into(),
            emulated,
            "2026-11-22T00:00:00Z".into(),
        );
        let probe = |(name, register, word): &(&str, &str, u32)| Probe {
            probe: (*name).to_owned(),
            free: name.starts_with("the order"),
            lacking: register.is_empty(),
            results: (!register.is_empty())
                .then(|| ((*register).to_owned(), Probe::hex(&vec![*word; ITEMS])))
                .into_iter()
                .collect(),
        };
        File { header, probes: probes.iter().map(probe).collect() }
    }

    const ADD: &str = "v_add_f32_e64 v40, v10, v20";
    const MUL: &str = "v_mul_lo_u32 v40, v10, v20";
    const ORDER: &str = "the order in which workgroups come";

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let one = file("gfx1151", true, &[(ADD, "v40", 0x3f80_0000), (MUL, "", 0)]);
        let text = one.text().unwrap();
        assert_eq!(File::parse(&text), Ok(one));
        assert!(text.starts_with(r#"{"format":"rocrepro device probe","version":1,"#), "{text}");
    }

    #[test]
    fn a_fault_in_one_instruction_is_told_by_its_name() {
        let good =
            file("gfx90a:sramecc+:xnack-", false, &[(ADD, "v40", 0x3f80_0000), (MUL, "v40", 7)]);
        let mut bad = good.clone();
        assert_eq!(
            compare(&good, &bad).unwrap(),
            Differences { compared: 2, same: 2, ..Differences::default() }
        );
        let mut words = vec![0x3f80_0000; ITEMS];
        (words[9], words[200]) = (0x3f80_0002, 0x3f7f_ffff);
        bad.probes[0].results.insert("v40".into(), Probe::hex(&words));
        let found = compare(&good, &bad).unwrap();
        assert_eq!((found.compared, found.same, found.differ.len()), (2, 1, 1));
        assert_eq!(
            found.differ[0].to_string(),
            "v_add_f32_e64 v40, v10, v20: v40 differs in 2 of 512 work-items; the first is 9, with 0x3f800000 and \
             0x3f800002; finite numbers are at most 2 ulp apart"
        );
        // A register that should have been left alone.
        bad = good.clone();
        bad.probes[1].results.insert("scc".into(), Probe::hex(&vec![1; ITEMS]));
        let found = compare(&good, &bad).unwrap();
        assert_eq!(
            found.differ[0].to_string(),
            "v_mul_lo_u32 v40, v10, v20: scc differs in 512 of 512 work-items; the first is 0, with what it held before \
             and 0x00000001"
        );
    }

    #[test]
    fn what_is_lacking_free_or_alone_is_no_difference() {
        let gpu = file("gfx1151", false, &[(ADD, "v40", 1), (MUL, "v40", 7), (ORDER, "words", 1)]);
        let emulated = file("gfx1151", true, &[(MUL, "", 0), (ORDER, "words", 2)]);
        let found = compare(&gpu, &emulated).unwrap();
        assert_eq!(found.differ, []);
        assert_eq!((found.free.len(), found.compared, found.same), (1, 1, 0));
        assert_eq!(found.alone, [vec![ADD.to_owned()], vec![]]);
        assert_eq!(found.lacking, [vec![], vec![MUL.to_owned()]]);
    }

    #[test]
    fn files_that_cannot_be_compared_are_refused_with_words() {
        let one = file("gfx1151", true, &[(ADD, "v40", 1), (MUL, "v40", 7)]);
        let other = file("gfx90a:xnack-", true, &[(ADD, "v40", 1)]);
        assert_eq!(
            compare(&one, &other).unwrap_err(),
            "the files are of different architectures, gfx1151 and gfx90a: an instruction of one is not that of the other"
        );
        let text = one.text().unwrap();
        let refused = |text: &str| -> Vec<String> {
            File::parse(text).unwrap_err().iter().map(ToString::to_string).collect()
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            refused(&lines[..2].join("\n")),
            ["line 2: the file is cut off: its end is missing"]
        );
        assert_eq!(
            refused(&[lines[0], lines[1], lines[3]].join("\n")),
            ["line 3: the file is not whole: it has 1 of 2 probes"]
        );
        let no_file = "line 1: this is no result file of `rocrepro device compare`, which begins with {\"format\":\"rocrepro device probe\"";
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
                format!("line 2: `{ADD}`: v40 is not in words of eight hexadecimal digits"),
                format!("line 3: `{MUL}`: v40 has 511 words, must have 512"),
            ]
        );
    }
}
