//! Builds stub libraries. A program that is linked to a library that the stack does not have can start with a stub in
//! its place. The first call of a stub's function prints a message.
//!
//! The formats are defined in the System V ABI, "Dynamic Linking", and the Linux Standard Base, "Symbol Versioning".

use object::{
    Endianness,
    elf::{self, SymbolInfo},
    write::{
        Error,
        elf::{FileHeader, ProgramHeader, Sym, Verdef, Writer},
    },
};

#[derive(Debug)]
pub(crate) struct StubLibrary {
    pub(crate) soname: &'static str,
    /// Symbol version of all functions, if any.
    pub(crate) version: Option<&'static str>,
    /// Name of a library that the stub depends on, if any.
    pub(crate) needs: Option<&'static str>,
    /// Names of functions that return 1. In each of them, 1 is an error code.
    pub(crate) functions: &'static [&'static str],
    /// Names of functions that return a text. The text is the stub's message.
    pub(crate) texts: &'static [&'static str],
}

const PAGE: u64 = 0x1000;

/// Number of entries in the dynamic table: six for names and symbols, three for a version, one for a dependency, and
/// the end.
const DYNAMIC: usize = 11;

/// Sizes of the machine code that [`call`] and [`returns`] generate, in bytes.
const CALL: u64 = 45;
const TEXT: u64 = 8;

impl StubLibrary {
    fn message(&self) -> String {
        format!(
            "rocrepro: {} is a stub of rocrepro, because this release lacks the library: its functions do nothing and \
             return an error",
            self.soname
        )
    }

    pub(crate) fn library(&self) -> Result<Vec<u8>, Error> {
        let message = self.message() + "\n\0";
        let mut bytes = Vec::new();
        let mut file = Writer::new(Endianness::Little, true, &mut bytes);
        let functions = || self.functions.iter().chain(self.texts);
        let count = functions().count() as u32;

        let soname = file.add_dynamic_string(self.soname.as_bytes());
        let version = self.version.map(|text| (text, file.add_dynamic_string(text.as_bytes())));
        let needs = self.needs.map(|text| file.add_dynamic_string(text.as_bytes()));
        let names: Vec<_> =
            functions().map(|name| file.add_dynamic_string(name.as_bytes())).collect();
        names.iter().for_each(|_| _ = file.reserve_dynamic_symbol_index());
        file.reserve_null_section_index();
        file.reserve_hash_section_index();
        file.reserve_dynsym_section_index();
        file.reserve_dynstr_section_index();
        if version.is_some() {
            file.reserve_gnu_versym_section_index();
            file.reserve_gnu_verdef_section_index();
        }
        file.reserve_dynamic_section_index();
        file.reserve_shstrtab_section_index();
        file.reserve_file_header();
        file.reserve_program_headers(4);
        let hash = file.reserve_hash(1, count + 1);
        let symbols = file.reserve_dynsym();
        let strings = file.reserve_dynstr()?;
        let (versions, definitions) = match version {
            Some(_) => (file.reserve_gnu_versym(), file.reserve_gnu_verdef(2, 2)),
            None => (0, 0),
        };
        let [call_at, text_at] = [CALL, TEXT].map(|size| file.reserve(size, 16));
        let text = file.reserve(message.len() as u64, 1);
        let read_only = file.reserved_len();
        let dynamic = file.reserve_dynamic(DYNAMIC);
        let flag = file.reserve(8, 8);
        let end = file.reserved_len();
        file.reserve_shstrtab()?;
        file.reserve_section_headers();

        file.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        })?;
        file.write_align_program_headers();
        // Writable data must be in a page of its own.
        let mut segment = |p_type, p_flags, p_offset: u64, size, p_align| {
            let address = if p_offset < dynamic { p_offset } else { p_offset + PAGE };
            file.write_program_header(&ProgramHeader {
                p_type,
                p_flags,
                p_offset,
                p_vaddr: address,
                p_paddr: address,
                p_filesz: size,
                p_memsz: size,
                p_align,
            });
        };
        segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, 0, read_only, PAGE);
        segment(elf::PT_LOAD, elf::PF_R | elf::PF_W, dynamic, end - dynamic, PAGE);
        segment(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, dynamic, flag - dynamic, 8);
        segment(elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, 0, 0, 16);

        file.write_hash(1, count + 1, |symbol| {
            let function = functions().nth(symbol.checked_sub(1)? as usize)?;
            Some(elf::hash(function.as_bytes()))
        });
        file.write_null_dynamic_symbol();
        for (index, name) in names.iter().enumerate() {
            let called = index < self.functions.len();
            let (st_value, st_size) = if called { (call_at, CALL) } else { (text_at, TEXT) };
            let st_name = file.dynamic_string_offset(Some(*name));
            file.write_dynamic_symbol(&Sym {
                section: None,
                st_name,
                st_info: SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC),
                st_other: elf::SymbolOther(0),
                // The library has no sections, so any index works except that of undefined symbols.
                st_shndx: elf::SymbolSection(1),
                st_value,
                st_size,
            });
        }
        file.write_dynstr();
        if let Some((name, id)) = version {
            file.write_null_gnu_versym();
            names.iter().for_each(|_| file.write_gnu_versym(elf::VersionIndex(2).into()));
            file.write_align_gnu_verdef();
            let bases =
                [(self.soname, soname, 1, elf::VER_FLG_BASE), (name, id, 2, elf::VersionFlags(0))];
            for (text, id, index, flags) in bases {
                let name = file.dynamic_string_offset(Some(id));
                let hash = elf::hash(text.as_bytes());
                let index = elf::VersionIndex(index);
                file.write_gnu_verdef(&Verdef {
                    version: 1,
                    flags,
                    index,
                    aux_count: 1,
                    name,
                    hash,
                });
            }
        }
        file.pad_until(call_at);
        file.write(&call(call_at, flag + PAGE, text, message.len() - 1));
        file.pad_until(text_at);
        file.write(&returns(text_at, text));
        file.write(message.as_bytes());
        file.write_align_dynamic();
        file.write_dynamic_string(elf::DT_SONAME, soname)?;
        if let Some(needs) = needs {
            file.write_dynamic_string(elf::DT_NEEDED, needs)?;
        }
        let size = u64::from(file.dynstr_len());
        let mut entries = vec![
            (elf::DT_HASH, hash),
            (elf::DT_SYMTAB, symbols),
            (elf::DT_SYMENT, 24),
            (elf::DT_STRTAB, strings),
            (elf::DT_STRSZ, size),
        ];
        if version.is_some() {
            let of_versions =
                [(elf::DT_VERSYM, versions), (elf::DT_VERDEF, definitions), (elf::DT_VERDEFNUM, 2)];
            entries.extend(of_versions);
        }
        entries.resize(DYNAMIC - 1 - usize::from(needs.is_some()), (elf::DT_NULL, 0));
        for (tag, value) in entries {
            file.write_dynamic(tag, value)?;
        }
        file.pad_until(end);
        file.write_shstrtab();
        file.write_null_section_header();
        file.write_hash_section_header(hash);
        file.write_dynsym_section_header(symbols, 1);
        file.write_dynstr_section_header(strings);
        file.write_gnu_versym_section_header(versions);
        file.write_gnu_verdef_section_header(definitions);
        file.write_dynamic_section_header(dynamic + PAGE);
        file.write_shstrtab_section_header();
        Ok(bytes)
    }
}

/// Returns the machine code of a function that prints the text if the byte at `flag` is zero, sets the byte, and
/// returns 1.
fn call(at: u64, flag: u64, text: u64, length: usize) -> Vec<u8> {
    let mut code = Vec::new();
    code.extend([0xb8, 1, 0, 0, 0, 0x86, 0x05]); // mov eax, 1; xchg [flag], al
    code.extend(relative(at, &code, flag));
    code.extend([0x84, 0xc0, 0x75, 0x18]); // test al, al; jnz done
    code.extend([0xbf, 2, 0, 0, 0, 0x48, 0x8d, 0x35]); // mov edi, 2; lea rsi, [text]
    code.extend(relative(at, &code, text));
    code.push(0xba); // mov edx, length
    code.extend((length as u32).to_le_bytes());
    code.extend([0xb8, 1, 0, 0, 0, 0x0f, 0x05]); // mov eax, 1 (write); syscall
    code.extend([0xb8, 1, 0, 0, 0, 0xc3]); // done: mov eax, 1; ret
    code
}

fn returns(at: u64, text: u64) -> Vec<u8> {
    let mut code = vec![0x48, 0x8d, 0x05]; // lea rax, [text]
    code.extend(relative(at, &code, text));
    code.push(0xc3); // ret
    code
}

/// Returns the 32-bit displacement from the end of its own four bytes to the address `to`, as x86 requires. The
/// displacement is appended to `code`, which begins at `at`.
fn relative(at: u64, code: &[u8], to: u64) -> [u8; 4] {
    let next = at + code.len() as u64 + 4;
    (to.wrapping_sub(next) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_library_loads_and_has_versioned_symbols() {
        let folder = tempfile::tempdir().unwrap();
        for version in [Some("V_4.0"), None] {
            let stub = StubLibrary {
                soname: "libnot.so.4",
                version,
                needs: None,
                functions: &["start", "stop"],
                texts: &["why"],
            };
            let path = folder.path().join(version.unwrap_or("plain"));
            std::fs::write(&path, stub.library().unwrap()).unwrap();
            // SAFETY: the library has no initialisers.
            let library = unsafe { libloading::os::unix::Library::new(&path) }.unwrap();
            for name in ["start", "stop"] {
                // SAFETY: the function takes no argument and returns an int.
                let function =
                    unsafe { library.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) };
                // SAFETY: as above, the function takes no argument and returns an int.
                assert_eq!(unsafe { function.unwrap()() }, 1);
            }
            // SAFETY: the function returns the address of a zero-terminated text in the library, which remains loaded.
            let text = unsafe {
                let why = library.get::<unsafe extern "C" fn() -> *const std::ffi::c_char>(b"why");
                std::ffi::CStr::from_ptr(why.unwrap()())
            };
            assert_eq!(text.to_str().unwrap().trim_end(), stub.message());
            let (name, handle) = (std::ffi::CString::new("stop").unwrap(), library.into_raw());
            let versioned = |version: &str| {
                let version = std::ffi::CString::new(version).unwrap();
                // SAFETY: both texts are zero-terminated, and the returned address is not called.
                unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) }
            };
            // If a library has no symbol versions, a lookup with any version succeeds.
            assert!(!versioned("V_4.0").is_null());
            assert_eq!(versioned("V_5.0").is_null(), version.is_some());
        }
    }
}
