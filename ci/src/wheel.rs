//! Builds a Python wheel, which contains the self-contained program and the Python module of program cases.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{Cursor, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{TaskResult, release::c_library};

/// Shared libraries that exist on every manylinux system, so that the program may need them. Source: PEP 600, and the
/// policies of auditwheel, <https://github.com/pypa/auditwheel/blob/main/src/auditwheel/policy/manylinux-policy.json>.
const ON_EVERY_SYSTEM: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];

const MODULE: &str = "harness/cli/program/rocrepro.py";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Builds `target/wheel/rocrepro-VERSION-TAG.whl` from the given program, or from the release build. Then installs the
/// wheel in an empty environment, with pip and, if this machine has uv, with uv.
pub(crate) fn wheel(sh: &Shell, program: Option<&String>) -> TaskResult {
    let program = match program {
        Some(program) => sh.current_dir().join(program),
        None => {
            cmd!(sh, "cargo build --release --locked -p rocrepro").run()?;
            sh.current_dir().join(crate::target_folder()).join("release/rocrepro")
        }
    };
    let folder = sh.current_dir().join("target/wheel");
    sh.remove_path(&folder)?;
    let file = write_wheel(sh, &program, &folder)?;
    test_installation(sh, &file)?;
    println!("{}: {} MB", file.display(), fs::metadata(&file)?.len() / 1_000_000);
    Ok(())
}

/// Writes the wheel of a program into a folder, and returns its path.
pub(crate) fn write_wheel(
    sh: &Shell,
    program: &Path,
    folder: &Path,
) -> Result<PathBuf, Box<dyn Error>> {
    let printed = cmd!(sh, "{program} --version").read()?;
    let version =
        printed.split_whitespace().nth(1).ok_or("the program does not print its version")?;
    let tag =
        tag(&cmd!(sh, "objdump -T {program}").read()?, &cmd!(sh, "objdump -p {program}").read()?)?;
    let mut licences = Vec::new();
    for name in LICENCES {
        licences.push((format!("licenses/{name}"), sh.read_binary_file(name)?));
    }
    let (module, readme) = (sh.read_binary_file(MODULE)?, sh.read_file("README.md")?);
    let bytes =
        archive_bytes(version, &tag, &readme, &sh.read_binary_file(program)?, module, licences)?;
    let file = folder.join(format!("rocrepro-{version}-{tag}.whl"));
    sh.create_dir(folder)?;
    sh.write_file(&file, bytes)?;
    Ok(file)
}

/// Returns the tag in the file name of a program's wheel, for example `py3-none-manylinux_2_31_x86_64`. `symbols` and
/// `headers` are the outputs of `objdump -T` and `objdump -p` for the program.
fn tag(symbols: &str, headers: &str) -> Result<String, String> {
    let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
    if let Some(other) = needed.map(str::trim).find(|name| !ON_EVERY_SYSTEM.contains(name)) {
        return Err(format!("the program needs {other}, which not every manylinux system has"));
    }
    let (major, minor) = c_library(symbols).ok_or("the program requires no version of glibc")?;
    Ok(format!("py3-none-manylinux_{major}_{minor}_x86_64"))
}

/// Returns the bytes of a wheel. Equal files result in equal bytes.
fn archive_bytes(
    version: &str,
    tag: &str,
    readme: &str,
    program: &[u8],
    module: Vec<u8>,
    licences: Vec<(String, Vec<u8>)>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let information = format!("rocrepro-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.1\nName: rocrepro\nVersion: {version}\nSummary: Turn a ROCm bug into a reproducible case, \
         and find out which release broke it\nLicense: MIT OR Apache-2.0\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    );
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: rocrepro {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    let mut files = vec![
        (format!("rocrepro-{version}.data/scripts/rocrepro"), program.to_vec()),
        ("rocrepro.py".to_owned(), module),
    ];
    files.extend(licences.into_iter().map(|(name, text)| (format!("{information}/{name}"), text)));
    files.push((format!("{information}/METADATA"), metadata.into_bytes()));
    files.push((format!("{information}/WHEEL"), about.into_bytes()));
    let mut record = String::new();
    for (name, bytes) in &files {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        writeln!(record, "{name},sha256={hash},{}", bytes.len())?;
    }
    let name = format!("{information}/RECORD");
    writeln!(record, "{name},,")?;
    files.push((name, record.into_bytes()));

    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let mode = if name.contains("/scripts/") { 0o755 } else { 0o644 };
        archive.start_file(name, SimpleFileOptions::default().unix_permissions(mode))?;
        archive.write_all(&bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Installs a wheel in empty environments, without a package index, and runs the program and the module.
pub(crate) fn test_installation(sh: &Shell, wheel: &Path) -> TaskResult {
    let folder = sh.create_temp_dir()?;
    let at = folder.path().join("pip");
    cmd!(sh, "python3 -m venv {at}").run()?;
    let python = at.join("bin/python");
    cmd!(sh, "{python} -m pip install --quiet --no-index --disable-pip-version-check {wheel}")
        .run()?;
    test_program(sh, &at)?;
    if cmd!(sh, "uv --version").quiet().ignore_stderr().read().is_err() {
        println!("not installed with uv, which this machine does not have");
        return Ok(());
    }
    let at = folder.path().join("uv");
    cmd!(sh, "uv --quiet venv {at}").run()?;
    let python = at.join("bin/python");
    cmd!(sh, "uv --quiet pip install --offline --python {python} {wheel}").run()?;
    test_program(sh, &at)
}

fn test_program(sh: &Shell, environment: &Path) -> TaskResult {
    let (program, python) = (environment.join("bin/rocrepro"), environment.join("bin/python"));
    let elsewhere = sh.create_temp_dir()?;
    let _there = sh.push_dir(elsewhere.path());
    let version = cmd!(sh, "{program} --version").read()?;
    let listed = cmd!(sh, "{program} case list graphs/long-chain").read()?;
    let checks = cmd!(sh, "{python} -c")
        .arg("import rocrepro; rocrepro.equal('a', [1], [1]); rocrepro.done()")
        .read()?;
    match version.starts_with("rocrepro ") && listed.contains("graphs/long-chain") {
        true if checks.starts_with("a: right") => Ok(()),
        _ => {
            Err(format!("the installed wheel does not work: {version}\n{listed}\n{checks}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use super::*;

    #[test]
    fn records_the_hash_and_size_of_every_file() {
        let licences = vec![("licenses/LICENSE-MIT".to_owned(), b"MIT".to_vec())];
        let tag = "py3-none-manylinux_2_31_x86_64";
        let pack = || {
            archive_bytes("0.1.0", tag, "# R", b"#!/bin/sh\n", b"pass\n".to_vec(), licences.clone())
        };
        let bytes = pack().expect("a wheel");
        assert_eq!(pack().expect("a wheel"), bytes, "equal files result in equal bytes");
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("a zip archive");
        let mut files = BTreeMap::new();
        for at in 0..archive.len() {
            let mut file = archive.by_index(at).expect("a file");
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("readable content");
            let name = file.name().expect("a name").into_owned();
            let is_script = name == "rocrepro-0.1.0.data/scripts/rocrepro";
            assert_eq!(file.unix_mode().map(|mode| mode & 0o111 != 0), Some(is_script));
            files.insert(name, content);
        }
        let record = files.remove("rocrepro-0.1.0.dist-info/RECORD").expect("RECORD");
        let record = String::from_utf8(record).expect("text");
        let mut listed = record.lines().collect::<Vec<_>>();
        assert_eq!(listed.pop(), Some("rocrepro-0.1.0.dist-info/RECORD,,"));
        assert_eq!(listed.len(), files.len());
        // The SHA-256 of the module, from sha256sum, in URL-safe Base64.
        let module = "rocrepro.py,sha256=n1bnYdeb_bNDBKASWGywTRa0Ne9hMAkal3AuVZJgovI,5";
        assert!(listed.contains(&module), "{record}");
        for (name, content) in &files {
            let size = format!(",{}", content.len());
            assert!(
                listed.iter().any(|l| l.starts_with(&format!("{name},")) && l.ends_with(&size))
            );
        }
        let about = String::from_utf8_lossy(&files["rocrepro-0.1.0.dist-info/WHEEL"]).into_owned();
        assert!(about.contains(&format!("\nTag: {tag}\n")), "{about}");
    }

    #[test]
    fn the_tag_states_what_the_program_needs() {
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.2.5) free\n0 DF *UND* 0 (GLIBC_2.34)  dlsym\n";
        let headers = "  NEEDED               libgcc_s.so.1\n  NEEDED               libc.so.6\n";
        assert_eq!(tag(symbols, headers).as_deref(), Ok("py3-none-manylinux_2_34_x86_64"));
        let other = format!("{headers}  NEEDED               libssl.so.3\n");
        assert!(tag(symbols, &other).is_err_and(|error| error.contains("libssl.so.3")));
        assert!(tag("", headers).is_err());
    }
}
