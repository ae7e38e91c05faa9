//! Characters that names may not contain.

/// Returns true for characters that affect the display: control characters, characters that reorder or hide text
/// (Unicode TR 36, "Bidirectional text spoofing", and CVE-2021-42574), and characters that XML cannot represent.
pub fn affects_display(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}
