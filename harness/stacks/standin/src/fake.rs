//! Creates fake builds: prefixes with the same layout as ROCm's, which contain a program that fails at a configured
//! rate.

use std::io::{Cursor, Write};

use sha2::{Digest, Sha256};

/// A member of an archive that a test creates.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A regular file: path, content, and whether it is executable.
    File(String, Vec<u8>, bool),
    /// A symbolic link: path and target.
    Link(String, String),
    /// A hard link: path of the link, and path of the file.
    Hard(String, String),
    /// A named pipe, given by its path.
    Pipe(String),
    /// A character device, given by its path.
    Device(String),
}

impl Entry {
    /// Returns a regular file that is not executable.
    pub fn file(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::File(path.to_owned(), content.into(), false)
    }
}

/// A build that consists of empty libraries and a program that fails at a configured rate.
#[derive(Clone, Debug)]
pub struct Fake {
    /// Version, which is also part of the build's name.
    pub version: String,
    /// Content of `share/fake.conf`, which the program reads: the rate of failures in per mille, or `skip`.
    pub conf: String,
    /// Commit of TheRock.
    pub therock: String,
    /// Name and commit of each submodule.
    pub pins: Vec<(String, String)>,
}

/// Program that fails at the rate in the build's `share/fake.conf`. It draws numbers from a generator whose state is
/// stored in the file that FAKE_STATE names, so a test gets the same numbers in each run.
const PROBE: &str = r#"#!/bin/sh
here=$(dirname "$0")
rate=$(cat "$here/../share/fake.conf")
[ "$rate" = skip ] && exit 125
state=$(cat "$FAKE_STATE")
state=$(( (state * 1103515245 + 12345) % 2147483648 ))
echo "$state" > "$FAKE_STATE"
[ $(( state / 65536 % 1000 )) -ge "$rate" ] && exit 0
echo "wrong bytes" >&2
exit 1
"#;

impl Fake {
    /// Returns a build of this version whose program never fails.
    pub fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            conf: "0".into(),
            therock: sha256(version.as_bytes())[..40].to_owned(),
            pins: vec![("rocm-systems".into(), sha256(b"systems")[..40].to_owned())],
        }
    }

    /// Returns the text of the build's `therock_manifest.json`.
    pub fn manifest(&self) -> String {
        let module = |(name, pin): &(String, String)| {
            serde_json::json!({"submodule_name": name, "submodule_path": name, "pin_sha": pin,
                "submodule_url": format!("https://github.com/ROCm/{name}.git"), "patches": []})
        };
        serde_json::json!({"the_rock_commit": self.therock, "github_run_id": "1",
            "rocm_package_version": self.version,
            "submodules": self.pins.iter().map(module).collect::<Vec<_>>(), "flags": {}})
        .to_string()
    }

    /// Returns the files and links of the build's tarball.
    pub fn entries(&self) -> Vec<Entry> {
        vec![
            Entry::file("lib/libamdhip64.so.7.0", runtime(&self.version)),
            Entry::Link("lib/libamdhip64.so.7".into(), "libamdhip64.so.7.0".into()),
            Entry::Link("lib/libamdhip64.so".into(), "libamdhip64.so.7".into()),
            // These files have the same content in all fake builds.
            Entry::file("lib/libhsa-runtime64.so.1", runtime("shared")),
            Entry::file("lib/libamd_comgr.so.3", runtime("shared compiler")),
            Entry::File("bin/probe".into(), PROBE.into(), true),
            Entry::Hard("bin/probe-again".into(), "bin/probe".into()),
            Entry::file("share/fake.conf", format!("{}\n", self.conf)),
            Entry::file("share/therock/therock_manifest.json", self.manifest()),
            Entry::file(".info/version", format!("{}\n", self.version)),
        ]
    }

    /// Returns the bytes of the build's tarball.
    pub fn tarball(&self) -> Vec<u8> {
        pack(&self.entries(), "tar.gz")
    }
}

/// Returns the bytes of the smallest file that rocrepro accepts as a shared library: an ELF header, one segment, and a
/// string that distinguishes the file from other files.
pub fn runtime(text: &str) -> Vec<u8> {
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let put16 = |elf: &mut Vec<u8>, n: u16| elf.extend(n.to_le_bytes());
    let put32 = |elf: &mut Vec<u8>, n: u32| elf.extend(n.to_le_bytes());
    let put64 = |elf: &mut Vec<u8>, n: u64| elf.extend(n.to_le_bytes());
    put16(&mut elf, 3); // ET_DYN
    put16(&mut elf, 62); // EM_X86_64
    put32(&mut elf, 1);
    put64(&mut elf, 0); // entry
    put64(&mut elf, 64); // program headers
    put64(&mut elf, 0); // section headers
    put32(&mut elf, 0);
    for n in [64, 56, 1, 64, 0, 0] {
        put16(&mut elf, n); // sizes and counts
    }
    let size = 120 + text.len() as u64;
    put32(&mut elf, 1); // PT_LOAD
    put32(&mut elf, 4); // readable
    for n in [0, 0, 0, size, size, 4096] {
        put64(&mut elf, n); // offset, addresses, sizes, alignment
    }
    elf.extend(text.bytes());
    elf
}

/// Returns the bytes of a .tar.gz that begins with a member of `mebibytes` MiB of zeros, which compress to a thousandth
/// of their size. The members in `entries` follow.
pub fn bomb(entries: &[Entry], mebibytes: usize) -> Vec<u8> {
    let packed = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).expect("writing to memory succeeds");
        packer.finish().expect("writing to memory succeeds")
    };
    let mut header = tar::Header::new_gnu();
    header.set_path("lib/bomb").expect("a short path");
    header.set_size((mebibytes as u64) << 20);
    header.set_mode(0o644);
    header.set_cksum();
    // Consecutive gzip members are decompressed as one stream, so one compressed MiB of zeros is repeated.
    let zeros = packed(&vec![0; 1 << 20]);
    [packed(header.as_bytes()), zeros.repeat(mebibytes), packed(&tar(entries))].concat()
}

/// Returns an archive in the format of the file name extension `ending`: `tar`, `tar.gz`, `tar.xz`, `tar.zst` or `whl`.
pub fn pack(entries: &[Entry], ending: &str) -> Vec<u8> {
    let plain = || tar(entries);
    match ending {
        "tar" => plain(),
        "tar.gz" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(&plain()).expect("writing to memory succeeds");
            packer.finish().expect("writing to memory succeeds")
        }
        "tar.xz" => {
            let options = lzma_rust2::XzOptions::with_preset(0);
            let mut packer = lzma_rust2::XzWriter::new(Vec::new(), options).expect("sound options");
            packer.write_all(&plain()).expect("writing to memory succeeds");
            packer.finish().expect("writing to memory succeeds")
        }
        "tar.zst" => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(Cursor::new(plain()), level)
        }
        "whl" => wheel(entries),
        other => panic!("unknown archive extension .{other}"),
    }
}

/// Returns the bytes of a tar file. Paths are written without checks, even malicious ones.
pub fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        let (path, kind, target, content): (_, _, _, &[u8]) = match entry {
            Entry::File(path, content, _) => (path, tar::EntryType::Regular, "", content),
            Entry::Link(path, target) => (path, tar::EntryType::Symlink, target.as_str(), b""),
            Entry::Hard(path, target) => (path, tar::EntryType::Link, target.as_str(), b""),
            Entry::Pipe(path) => (path, tar::EntryType::Fifo, "", b""),
            Entry::Device(path) => (path, tar::EntryType::Char, "", b""),
        };
        // The setters of the crate `tar` reject malicious paths that tests need, so the header is written directly.
        let raw = header.as_old_mut();
        raw.name[..path.len()].copy_from_slice(path.as_bytes());
        raw.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(if matches!(entry, Entry::File(_, _, true)) { 0o755 } else { 0o644 });
        header.set_cksum();
        builder.append(&header, content).expect("writing to memory succeeds");
    }
    builder.into_inner().expect("writing to memory succeeds")
}

fn wheel(entries: &[Entry]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = zip::write::SimpleFileOptions::default();
        match entry {
            Entry::File(path, content, executable) => {
                let mode = if *executable { 0o755 } else { 0o644 };
                let options = options.unix_permissions(mode);
                writer.start_file(path, options).expect("a name");
                writer.write_all(content).expect("writing to memory succeeds");
            }
            Entry::Link(path, target) => {
                writer.add_symlink(path, target, options).expect("a name");
            }
            other => panic!("a wheel has no {other:?}"),
        }
    }
    writer.finish().expect("writing to memory succeeds").into_inner()
}

/// Returns the SHA-256 of the bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
