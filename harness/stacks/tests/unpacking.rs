//! Tests that unpacking can be cancelled, and that archives whose decompression needs too much memory are rejected.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stacks::ObtainError;
use standin::{Entry, Site, pack};

use common::{A, build, store};

/// Obtains an archive, and cancels when `begun` is true: after the download, and long before the end of unpacking.
/// `begun` receives the folder of the store.
fn cancelled(archive: Vec<u8>, ending: &str, begun: &dyn Fn(&std::path::Path) -> bool) {
    let path = A.replace("tar.gz", ending);
    let mut site = Site::default();
    site.file(&path, archive);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let one = build(&server, "one", &[(&path, None)]);
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fetch = scope.spawn(|| store(folder.path()).obtain_unless(&one, &cancel, &|_| ()));
        while !begun(&folder.path().join("cache/builds")) {
            assert!(!fetch.is_finished(), "{:?}", fetch.join().unwrap().map(|_| ()));
            std::thread::sleep(Duration::from_millis(1));
        }
        cancel.store(true, Ordering::Relaxed);
        let error = fetch.join().unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(error, ObtainError::Cancelled), "{ending}: {error}");
    });
}

/// No entry is a HIP runtime. If unpacking did not check for cancellation, another error would be returned.
#[test]
fn cancels_the_unpacking_of_many_and_of_large_entries() {
    let exists = |name: &'static str| {
        move |builds: &std::path::Path| {
            builds.join("prefixes/.one-gfx1151.work").join(name).exists()
        }
    };
    let mut header = tar::Header::new_gnu();
    let mut entry = |path: &str, kind: tar::EntryType, size: u64| {
        header.set_path(path).unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let packed = |plain: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, plain).unwrap();
        packed.finish().unwrap()
    };
    let folders: Vec<u8> = (0..400_000_u32)
        .flat_map(|n| entry(&format!("d{}/{n}", n % 100), tar::EntryType::Directory, 0))
        .collect();
    let files: Vec<u8> = (0..400_000_u32)
        .flat_map(|n| entry(&format!("f{}/{n}", n % 100), tar::EntryType::Regular, 0))
        .collect();
    let large = [
        packed(&entry("large.begun", tar::EntryType::Regular, 0)),
        packed(&entry("large", tar::EntryType::Regular, 600 << 20)),
        packed(&vec![0; 1 << 20]).repeat(600),
    ];
    cancelled(packed(&folders), "tar.gz", &exists("d0"));
    cancelled(packed(&files), "tar.gz", &exists("f0"));
    cancelled(large.concat(), "tar.gz", &exists("large.begun"));
}

#[test]
fn refuses_archives_whose_decompression_needs_much_memory() {
    let refused = |archive: Vec<u8>, ending: &str| {
        let path = A.replace("tar.gz", ending);
        let mut site = Site::default();
        site.file(&path, archive);
        let server = site.serve();
        let folder = tempfile::tempdir().unwrap();
        let one = build(&server, "one", &[(&path, None)]);
        let error = store(folder.path()).obtain(&one, &|_| ()).map(|_| ()).unwrap_err();
        assert!(matches!(error, ObtainError::Memory { .. }), "{ending}: {error}");
        assert!(error.to_string().contains("needs more than 256 MiB of memory"), "{error}");
        assert!(!error.is_environment() && stacks::Hint::hint(&error).is_some());
    };
    // This is the header of a block with one filter, LZMA2 (0x21), whose dictionary has 4 GiB (40): xz-file-format.txt,
    // 3.1 and 5.3.1.
    let mut xz = pack(&[Entry::file("a", "x")], "tar.xz");
    assert_eq!(xz[12..16], [2, 0, 0x21, 1]);
    xz[16] = 40;
    let sum = crc32(&xz[12..20]);
    xz[20..24].copy_from_slice(&sum.to_le_bytes());
    refused(xz, "tar.xz");
    // This is the header of a frame without a content size, whose window has 1 GiB (exponent 20): RFC 8878, 3.1.1.1.2.
    let zst = [0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, 1, 0, 0];
    refused(zst.to_vec(), "tar.zst");
}

/// Returns the CRC32 of IEEE 802.3, which xz uses.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
