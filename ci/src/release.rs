//! Builds the release archive, which contains the self-contained program with its manual pages and shell completions.

use std::{error::Error, fs};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, wheel};

/// Documents that the archive contains next to the program.
const DOCUMENTS: [&str; 6] =
    ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT", "Containerfile"];

const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "rocrepro.bash"), ("zsh", "_rocrepro"), ("fish", "rocrepro.fish")];

/// Returns the name of the archive of a version, which is also the name of the folder in it.
fn archive_name(version: &str) -> String {
    format!("rocrepro-{version}-x86_64-linux")
}

/// Builds `target/archive/rocrepro-VERSION-x86_64-linux.tar.gz`, its SHA-256 file and a wheel. Then unpacks the archive
/// in another folder and runs a case there. `newest` is the newest version of glibc that the program may need, for
/// example 2.31.
pub(crate) fn release(sh: &Shell, newest: Option<&String>) -> TaskResult {
    cmd!(sh, "cargo build --release --locked -p rocrepro").run()?;
    let program = sh.current_dir().join(crate::target_folder()).join("release/rocrepro");
    let needed = c_library(&cmd!(sh, "objdump -T {program}").read()?)
        .ok_or("the program requires no version of the C library")?;
    println!("the program needs glibc {}.{}", needed.0, needed.1);
    if let Some(newest) = newest {
        let most =
            version(newest).ok_or_else(|| format!("`{newest}` is not a version such as 2.31"))?;
        if needed > most {
            return Err(format!(
                "the program must not need a glibc newer than {newest}; build the program on an older system"
            )
            .into());
        }
    }

    let printed = cmd!(sh, "{program} --version").read()?;
    let version =
        printed.split_whitespace().nth(1).ok_or("the program does not print its version")?;
    let name = archive_name(version);
    let place = sh.current_dir().join("target/archive");
    sh.remove_path(&place)?;
    let folder = place.join(&name);
    sh.create_dir(folder.join("completions"))?;
    sh.copy_file(&program, folder.join("rocrepro"))?;
    for file in DOCUMENTS {
        sh.copy_file(file, folder.join(file))?;
    }
    for (shell, file) in COMPLETIONS {
        let script = cmd!(sh, "{program} completions {shell}").read()?;
        sh.write_file(folder.join("completions").join(file), script + "\n")?;
    }
    let pages = folder.join("man/man1");
    cmd!(sh, "{program} man {pages}").run()?;

    let archive = format!("{name}.tar.gz");
    let _inside = sh.push_dir(&place);
    // With these options, tar makes identical archives from the same files.
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    cmd!(sh, "tar {same...} -czf {archive} {name}").run()?;
    let sum = cmd!(sh, "sha256sum {archive}").read()?;
    sh.write_file(format!("{archive}.sha256"), sum + "\n")?;
    test_archive(sh, &archive, &name)?;
    let wheel = wheel::write_wheel(sh, &program, &place)?;
    wheel::test_installation(sh, &wheel)?;
    let bytes = fs::metadata(place.join(&archive))?.len();
    println!("target/archive/{archive}: {} MB", bytes / 1_000_000);
    Ok(())
}

/// Unpacks the archive and runs the program as a user would.
fn test_archive(sh: &Shell, archive: &str, name: &str) -> Result<(), Box<dyn Error>> {
    cmd!(sh, "sha256sum --quiet -c {archive}.sha256").run()?;
    let elsewhere = sh.create_temp_dir()?;
    let at = elsewhere.path();
    cmd!(sh, "tar -xzf {archive} -C {at}").run()?;
    let unpacked = at.join(name);
    let program = unpacked.join("rocrepro");
    for page in ["rocrepro.1", "rocrepro-run.1"] {
        let text = sh.read_file(unpacked.join("man/man1").join(page))?;
        if !text.contains(".TH rocrepro") {
            return Err(format!("{page} is not a manual page").into());
        }
    }
    let _there = sh.push_dir(at);
    let said =
        cmd!(sh, "{program} run copies/small-sizes --rocm {STACK} --device emulated").read()?;
    if !said.contains("passed") {
        return Err(format!("the program in the archive cannot run a case: {said}").into());
    }
    Ok(())
}

/// Returns the newest version of glibc that the symbols of a program need.
pub(crate) fn c_library(symbols: &str) -> Option<(u32, u32)> {
    let named = symbols.match_indices("GLIBC_2.");
    named.filter_map(|(at, _)| version(&symbols[at + "GLIBC_".len()..])).max()
}

fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo binstall` downloads the archive that this task makes.
    #[test]
    fn binstall_names_the_archive() {
        let manifest: toml::Table =
            toml::from_str(include_str!("../../harness/cli/Cargo.toml")).expect("a manifest");
        let metadata = &manifest["package"]["metadata"]["binstall"];
        let name = archive_name("{ version }");
        let word = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        assert!(word("pkg-url").ends_with(&format!("/v{{ version }}/{name}.tar.gz")), "{metadata}");
        assert_eq!(word("bin-dir"), format!("{name}/{{ bin }}"));
    }

    #[test]
    fn finds_the_newest_c_library() {
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.2.5) free\n0 DF *UND* 0 (GLIBC_2.34)  dlsym\n0 (GLIBC_2.9) x\n";
        assert_eq!(c_library(symbols), Some((2, 34)));
        assert_eq!(c_library("no symbols"), None);
        assert!(version("2.31") > version("2.9") && version("x").is_none());
    }
}
