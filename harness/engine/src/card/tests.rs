use super::*;

/// The files of several machines. Each machine begins with `# name`, and each of its files with `== path`. All other
/// files are missing.
const MACHINES: &str = include_str!("machines.txt");

fn machines() -> Vec<(&'static str, tempfile::TempDir)> {
    let texts = MACHINES.split("# ").skip(1);
    let made = texts.map(|text| {
        let (name, files) = text.split_once('\n').unwrap();
        let root = tempfile::tempdir().unwrap();
        for file in files.split("== ").skip(1) {
            let (path, text) = file.split_once('\n').unwrap();
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (name, root)
    });
    made.collect()
}

/// A person has checked that the expected JSON describes the files of each machine.
#[test]
fn each_machine_is_described() {
    let mut all = serde_json::Map::new();
    for (name, root) in machines() {
        let mut not_read = Vec::new();
        let (gpus, serials) = gpus(root.path(), &mut not_read);
        let driver = driver(root.path(), &mut Vec::new());
        let set: Vec<Variable> = (name.contains("overridden"))
            .then(|| Variable { name: "HSA_OVERRIDE_GFX_VERSION".into(), value: "11.0.0".into() })
            .into_iter()
            .collect();
        let advice = advice(root.path(), &gpus, &driver, &set);
        let words = driver.name("Linux 6.14.0");
        let here = root.path().display().to_string();
        let access: Vec<_> = driver.access.iter().map(|text| text.replace(&here, "")).collect();
        let said = serde_json::json!({
            "gpus": gpus, "driver": words, "access": access, "advice": advice, "serials": serials,
        });
        all.insert(name.to_owned(), said);
    }
    assert!(all.len() >= 8, "{}", all.len());
    insta::assert_snapshot!(serde_json::to_string_pretty(&all).unwrap());
}

#[test]
fn reports_a_machine_without_gpu() {
    let root = tempfile::tempdir().unwrap();
    let mut not_read = Vec::new();
    assert_eq!(gpus(root.path(), &mut not_read).0, []);
    assert_eq!(not_read[0].what, "/sys/class/kfd");
    assert_eq!(driver(root.path(), &mut not_read), Driver::default());
    assert_eq!(advice(root.path(), &[], &Driver::default(), &[]), Vec::<String>::new());
}

#[test]
fn gpu_ids_differ_and_hide_the_serial_number() {
    let serial = "18f2a3b4c5d6e7f8";
    let card = anonymous_id(serial);
    assert_eq!(card.len(), 12);
    assert!(card != anonymous_id("18f2a3b4c5d6e7f9") && !card.contains(&serial[..6]));
}
