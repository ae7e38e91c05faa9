//! Provides a macro that embeds a file, built by cargo, into a program in compressed form.

use std::{fs, io::Write};

use flate2::{Compression, write::ZlibEncoder};
use proc_macro::{Delimiter, Group, Literal, Punct, Spacing, TokenStream, TokenTree};

/// Expands `file!("VARIABLE")` to an expression with the content of a file. The environment variable `VARIABLE` must
/// contain the path of the file when the program is compiled.
///
/// The expression is `(digest, length, compressed): (&str, usize, &[u8])`: the XXH3 of the file as 32 hexadecimal
/// digits, its length in bytes before compression, and its content compressed with zlib (RFC 1950).
///
/// If the file cannot be read, the expression contains an assembler directive that fails, so that the program does not
/// build. `cargo check` does not run the assembler, so it accepts the expression, whose content is then empty. It has
/// to accept the expression, because it does not build the file either.
#[proc_macro]
pub fn file(variable: TokenStream) -> TokenStream {
    let variable = variable.to_string();
    let path = std::env::var_os(variable.trim_matches('"')).unwrap_or_default();
    let Ok(file) = fs::read(&path) else {
        // The assembler directive is in a module, because rustc rejects `global_asm!` as a statement.
        let missing = format!(
            "{{ mod missing {{ ::core::arch::global_asm!(\".error \\\"cannot read the file that {} names\\\"\"); }} (\"\", 0_usize, b\"\".as_slice()) }}",
            variable.trim_matches('"')
        );
        return missing.parse().expect("the text above is a Rust expression");
    };
    let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&file));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let compressed = encoder.write_all(&file).and_then(|()| encoder.finish());
    let compressed = compressed.expect("writing to memory does not fail");
    let with_comma =
        |literal: Literal| [TokenTree::from(literal), Punct::new(',', Spacing::Alone).into()];
    let parts = [
        Literal::string(&digest),
        Literal::usize_suffixed(file.len()),
        Literal::byte_string(&compressed),
    ];
    let tuple: TokenStream = parts.into_iter().flat_map(with_comma).collect();
    TokenTree::from(Group::new(Delimiter::Parenthesis, tuple)).into()
}
