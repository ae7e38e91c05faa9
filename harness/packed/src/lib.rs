//! A file that cargo has built before, as a part of a program: packed, as programs are downloaded.

use std::{fs, io::Write};

use flate2::{Compression, write::ZlibEncoder};
use proc_macro::{Delimiter, Group, Literal, Punct, Spacing, TokenStream, TokenTree};

/// `file!("VARIABLE")` is the file whose path the environment variable holds while the program is compiled, as
/// `(digest, length, packed)`: 32 hexadecimal digits (XXH3), its bytes, and the file itself as zlib packs it (RFC 1950).
///
/// A program whose file is not there does not assemble. `cargo check` builds no file and assembles nothing, so it does without.
#[proc_macro]
pub fn file(variable: TokenStream) -> TokenStream {
    let variable = variable.to_string();
    let path = std::env::var_os(variable.trim_matches('"')).unwrap_or_default();
    let Ok(file) = fs::read(&path) else {
        let missing = format!(
            "{{ ::core::arch::global_asm!(\".error \\\"the file of {} is not there\\\"\"); (\"\", 0_usize, b\"\".as_slice()) }}",
            variable.trim_matches('"')
        );
        return missing.parse().expect("an expression of Rust");
    };
    let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&file));
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(&file).and_then(|()| packed.finish()).expect("memory takes it");
    let part =
        |literal: Literal| [TokenTree::from(literal), Punct::new(',', Spacing::Alone).into()];
    let parts = [
        Literal::string(&digest),
        Literal::usize_suffixed(file.len()),
        Literal::byte_string(&packed),
    ];
    let tuple: TokenStream = parts.into_iter().flat_map(part).collect();
    TokenTree::from(Group::new(Delimiter::Parenthesis, tuple)).into()
}
