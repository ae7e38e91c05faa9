//! Creates Debian packages and repositories for tests.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use lzma_rust2::{XzOptions, XzWriter};
use sha2::{Digest, Sha256};

use crate::transfer::hex;

/// Member of a Debian package that a test creates.
pub(crate) enum Item<'a> {
    /// A file: path and content.
    File(&'a str, &'a str),
    /// A symbolic link: path and target.
    Link(&'a str, &'a str),
    /// A hard link: its path, and the path of an earlier file.
    Hard(&'a str, &'a str),
    /// A named pipe, given by its path.
    Pipe(&'a str),
}

/// Returns the bytes of a .deb with these members. Paths are written unchanged, even malicious ones.
pub(crate) fn deb(items: &[Item<'_>]) -> Vec<u8> {
    let mut data = tar::Builder::new(Vec::new());
    for item in items {
        let (kind, path, target, content) = match *item {
            Item::File(path, content) => (tar::EntryType::Regular, path, "", content),
            Item::Link(path, target) => (tar::EntryType::Symlink, path, target, ""),
            Item::Hard(path, target) => (tar::EntryType::Link, path, target, ""),
            Item::Pipe(path) => (tar::EntryType::Fifo, path, "", ""),
        };
        if path.len() > 100 {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::GNULongName);
            header.set_size(path.len() as u64);
            header.set_cksum();
            data.append(&header, path.as_bytes()).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        // The setters of the crate `tar` reject the malicious paths that tests need, so the fields are written
        // directly.
        let fields = header.as_gnu_mut().unwrap();
        let short = &path.as_bytes()[..path.len().min(100)];
        fields.name[..short.len()].copy_from_slice(short);
        fields.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        data.append(&header, content.as_bytes()).unwrap();
    }
    let mut compressed = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap();
    compressed.write_all(&data.into_inner().unwrap()).unwrap();
    members(&[
        ("debian-binary", b"2.0\n".as_slice()),
        ("control.tar.xz", b"".as_slice()),
        ("data.tar.xz", &compressed.finish().unwrap()),
    ])
}

/// Returns the bytes of an ar archive with these members, each with its name and content.
pub(crate) fn members(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Writes an unsigned Debian repository with one suite, and returns its path. Each package is a name, a version and the
/// bytes of the .deb.
pub(crate) fn repository(at: &Path, suite: &str, packages: &[(&str, &str, Vec<u8>)]) -> PathBuf {
    let index = at.join("dists").join(suite).join("main/binary-amd64");
    fs::create_dir_all(&index).unwrap();
    let mut text = String::new();
    for (name, version, deb) in packages {
        let file = format!("{name}_{version}_amd64.deb");
        fs::write(at.join(&file), deb).unwrap();
        text += &format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Test\n\
             Description: x\nFilename: {file}\nSize: {}\nSHA256: {}\n\n",
            deb.len(),
            sha256(deb)
        );
    }
    fs::write(index.join("Packages"), &text).unwrap();
    let release = format!(
        "Suite: {suite}\nCodename: {suite}\nComponents: main\nArchitectures: amd64\n\
         Date: Sat, 21 Nov 2026 00:00:00 UTC\nSHA256:\n {} {} main/binary-amd64/Packages\n",
        sha256(text.as_bytes()),
        text.len()
    );
    fs::write(at.join("dists").join(suite).join("Release"), release).unwrap();
    at.to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
