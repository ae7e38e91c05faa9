//! Every case of the library is well-formed on every trial and under every fault.

use std::{collections::BTreeMap, path::Path};

use case::{Case, Kernels, lower};

fn texts(folder: &Path, ending: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder is part of the project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
            for (id, text) in texts(&path, ending) {
                found.insert(format!("{name}/{id}"), text);
            }
        } else if path.extension().is_some_and(|e| e == ending) {
            let id = path.file_stem().expect("has a name").to_string_lossy().into_owned();
            found.insert(id, std::fs::read_to_string(&path).expect("readable"));
        }
    }
    found
}

#[test]
fn every_trial_of_every_case_lowers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kernels: Kernels = texts(&root.join("kernels"), "hip");
    let cases = texts(&root.join("cases"), "yaml");
    assert!(!cases.is_empty());
    for (id, text) in cases {
        let case = Case::parse(&id, &text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        for trial in case.trials() {
            let faults = case.faults.iter().map(|f| Some(f.fault)).chain([None]);
            for fault in faults {
                let plan = lower(&case, &trial, &kernels, fault)
                    .unwrap_or_else(|m| panic!("{id}{trial}: {m:#?}"))
                    .plan;
                let mut ids: Vec<_> = plan.steps().iter().map(|s| s.id).collect();
                ids.sort_unstable();
                ids.dedup();
                assert_eq!(ids.len(), plan.steps().len(), "{id}{trial}: step ids are unique");
                if fault.is_some_and(|f| f.place() == device::Place::Call) {
                    let planted = plan.steps().iter().any(|s| s.planted.is_some());
                    assert!(planted, "{id}{trial}: {fault:?} concerns no call");
                }
            }
        }
    }
}

#[test]
fn every_kernel_has_a_reference_and_every_reference_a_kernel() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files: Vec<_> = texts(&root.join("kernels"), "hip").into_keys().collect();
    let mut references: Vec<_> = plan::KERNELS.iter().map(|k| k.name.to_owned()).collect();
    references.sort();
    assert_eq!(files, references);
}
