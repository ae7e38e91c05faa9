use proptest::prelude::*;

use super::*;

const MACH_GFX1151: u32 = 0x04a;

/// File offsets of the parts of the sample code object. The address of each part equals its file offset.
const DYNAMIC: u64 = 0x100;
const SYMBOLS: u64 = 0x180;
const STRINGS: u64 = 0x200;
const HASH: u64 = 0x240;
const RELOCATIONS: u64 = 0x260;
const DESCRIPTOR: u64 = 0x2c0;
const END: u64 = 0x300;

fn put<const N: usize>(file: &mut [u8], at: u64, bytes: [u8; N]) {
    file[at as usize..at as usize + N].copy_from_slice(&bytes);
}

fn put64(file: &mut [u8], at: u64, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        put(file, at + index as u64 * 8, word.to_le_bytes());
    }
}

/// Returns a code object with one loadable segment that contains a kernel `k.kd`, a variable `v` and an external symbol
/// `x`.
fn sample() -> Vec<u8> {
    let mut file = vec![0; END as usize];
    put(&mut file, 0, [0x7f, b'E', b'L', b'F', 2, 1, 1, 64, 4]);
    put(&mut file, 16, 3u16.to_le_bytes());
    put(&mut file, 18, 224u16.to_le_bytes());
    put(&mut file, 20, 1u32.to_le_bytes());
    put64(&mut file, 32, &[64]);
    put(&mut file, 48, MACH_GFX1151.to_le_bytes());
    for (at, value) in [(52, 64u16), (54, 56), (56, 2), (58, 64)] {
        put(&mut file, at, value.to_le_bytes());
    }
    for (index, kind, address, len) in [(0, 1u64, 0, END), (1, 2, DYNAMIC, 0x80)] {
        let header = [kind, address, address, address, len, len, 0x1000];
        put64(&mut file, 64 + index * 56, &header);
    }
    // DT_SYMTAB, DT_STRTAB, DT_STRSZ, DT_HASH, DT_RELA, DT_RELASZ, DT_NULL
    let dynamic = [6, SYMBOLS, 5, STRINGS, 10, 10, 4, HASH, 7, RELOCATIONS, 8, 72, 0, 0];
    put64(&mut file, DYNAMIC, &dynamic);
    put(&mut file, STRINGS, *b"\0k.kd\0v\0x\0");
    let symbols =
        [(1u32, 0x11u8, 6u16, DESCRIPTOR, 64u64), (6, 0x11, 7, 0x2a8, 4), (8, 0x10, 0, 0, 0)];
    for (index, (name, info, section, value, size)) in symbols.into_iter().enumerate() {
        let at = SYMBOLS + 24 * (index as u64 + 1);
        put(&mut file, at, name.to_le_bytes());
        put(&mut file, at + 4, [info, 3]);
        put(&mut file, at + 6, section.to_le_bytes());
        put64(&mut file, at + 8, &[value, size]);
    }
    // The hash table has one bucket, and one chain per symbol.
    put64(&mut file, HASH, &[1 | (4 << 32)]);
    // The relocations are RELATIVE64, ABS64 of the external symbol, and REL32 of the variable.
    let relocations = [0x2b0, 13, 0x10, 0x2b8, (3 << 32) | 3, 1, 0x2ac, (2 << 32) | 4, 0];
    put64(&mut file, RELOCATIONS, &relocations);
    for (at, word) in [(0, 256u32), (4, 16), (8, 40), (56, 1 << 11)] {
        put(&mut file, DESCRIPTOR + at, word.to_le_bytes());
    }
    file
}

#[test]
fn parses_a_code_object() {
    let file = sample();
    let object = CodeObject::parse(&file, Arch::Gfx1151).unwrap();
    assert_eq!(object.size, END);
    let names: Vec<_> = object.symbols.iter().map(|s| (s.name.as_str(), s.kind)).collect();
    assert_eq!(names, [("k.kd", Kind::Kernel), ("v", Kind::Variable)]);
    let expected =
        Descriptor { group_bytes: 256, private_bytes: 16, kernarg_bytes: 40, dynamic_stack: true };
    assert_eq!(object.descriptor(&object.symbols[0]), expected);
    let relocation = |place, form, base, addend| Relocation { place, form, base, addend };
    let expected = [
        relocation(0x2b0, RelocationKind::Abs64, RelocationBase::Image(0), 0x10),
        relocation(0x2b8, RelocationKind::Abs64, RelocationBase::External("x".into()), 1),
        relocation(0x2ac, RelocationKind::Rel32Lo, RelocationBase::Image(0x2a8), 0),
    ];
    assert_eq!(object.relocations, expected);
}

#[test]
fn relocations_write_the_right_bytes() {
    #[track_caller]
    fn check(form: RelocationKind, expected: &[u8]) {
        assert_eq!(&form.bytes(0x1_0000_0010, 0x1_0000_0020)[..form.len()], expected, "{form:?}");
    }
    check(RelocationKind::Abs32Lo, &[0x10, 0, 0, 0]);
    check(RelocationKind::Abs32Hi, &[1, 0, 0, 0]);
    check(RelocationKind::Abs64, &[0x10, 0, 0, 0, 1, 0, 0, 0]);
    check(RelocationKind::Rel32Lo, &[0xf0, 0xff, 0xff, 0xff]);
    check(RelocationKind::Rel64, &[0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn distinguishes_other_architectures_from_damage() {
    let file = sample();
    let other = CodeObject::parse(&file, Arch::Gfx1100);
    assert_eq!(other.unwrap_err(), Problem::OtherArch(MACH_GFX1151));
    let mut generic = sample();
    put(&mut generic, 48, 0x54u32.to_le_bytes());
    assert!(CodeObject::parse(&generic, Arch::Gfx1151).is_ok());
}

#[test]
fn rejects_damaged_code_objects() {
    #[track_caller]
    fn check(at: u64, bytes: &[u8]) {
        let mut file = sample();
        file[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        let result = CodeObject::parse(&file, Arch::Gfx1151);
        assert!(matches!(result, Err(Problem::Malformed(_))), "{at:#x}: {result:?}");
    }
    // The damaged fields are the magic number, the class, the byte order and the machine.
    check(0, b"\x7fELG");
    check(4, &[1]);
    check(5, &[2]);
    check(18, &[62]);
    // The damaged fields are the offset of the program headers, the offset of a segment, its size in the file, and
    // (with an enormous value) its size in memory.
    check(32, &[0xff; 8]);
    check(64 + 8, &[0xff; 8]);
    check(64 + 32, &(END + 1).to_le_bytes());
    check(64 + 40, &(1u64 << 60).to_le_bytes());
    // The damaged addresses are those of tables, which are then outside of the image.
    check(DYNAMIC + 8, &[0xff; 8]);
    check(DYNAMIC + 24, &[0xff; 8]);
    check(HASH + 4, &[0xff; 4]);
    check(RELOCATIONS, &END.to_le_bytes());
    check(RELOCATIONS + 8, &[99]);
    check(RELOCATIONS + 24 + 12, &[99]);
    // The damaged fields are the name and the address of a symbol, and a descriptor that is cut off.
    check(SYMBOLS + 24, &[0xff; 4]);
    check(SYMBOLS + 24 + 8, &[0xff; 8]);
    check(SYMBOLS + 24 + 8, &(END - 8).to_le_bytes());
    // A symbol of type function is not listed as a symbol, but a relocation may refer to it.
    check(SYMBOLS + 48 + 4, &[0x12, 3, 7, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn truncated_files_do_not_panic() {
    let file = sample();
    for len in 0..file.len() {
        assert!(CodeObject::parse(&file[..len], Arch::Gfx1151).is_err(), "{len}");
    }
}

/// Checks the guarantees on which the loader relies when it writes an image: all parts of the load plan lie inside the
/// image.
fn check_parts_inside_image(file: &[u8]) {
    let Ok(object) = CodeObject::parse(file, Arch::Gfx1151) else { return };
    let inside =
        |start: u64, len: u64| start.checked_add(len).is_some_and(|end| end <= object.size);
    for segment in &object.segments {
        assert!(inside(segment.address, segment.data.len() as u64), "{segment:?}");
    }
    for relocation in &object.relocations {
        assert!(inside(relocation.place, relocation.form.len() as u64), "{relocation:?}");
        if let RelocationBase::Image(offset) = relocation.base {
            assert!(inside(offset, 0), "{relocation:?}");
        }
    }
    for symbol in &object.symbols {
        assert!(inside(symbol.address, 0), "{symbol:?}");
        if symbol.kind == Kind::Kernel {
            object.descriptor(symbol);
        }
    }
}

proptest! {
    #[test]
    fn changed_bytes_do_not_panic(changes in prop::collection::vec((0..END as usize, any::<u8>()), 1..8)) {
        let mut file = sample();
        for (at, byte) in changes {
            file[at] = byte;
        }
        check_parts_inside_image(&file);
    }

    #[test]
    fn changed_words_do_not_panic(
        changes in prop::collection::vec((0..END / 8, any::<u64>(), 0..64u32), 1..6),
    ) {
        let mut file = sample();
        for (at, word, shift) in changes {
            // Small numbers and numbers near the maximum are the most likely to cause overflows.
            let word = if shift % 2 == 0 { word >> shift } else { !(word >> shift) };
            put64(&mut file, at * 8, &[word]);
        }
        check_parts_inside_image(&file);
    }

    #[test]
    fn rejects_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        assert!(CodeObject::parse(&bytes, Arch::Gfx1151).is_err());
    }

    #[test]
    fn arbitrary_gnu_hash_tables_do_not_panic(words in prop::collection::vec(any::<u32>(), 8)) {
        let mut file = sample();
        // DT_GNU_HASH replaces DT_HASH.
        put64(&mut file, DYNAMIC + 48, &[0x6fff_fef5]);
        for (index, word) in words.into_iter().enumerate() {
            put(&mut file, HASH + 4 * index as u64, word.to_le_bytes());
        }
        let _ = CodeObject::parse(&file, Arch::Gfx1151);
    }
}
