//! Tests that register files are reused and contain zeros.

use isa::inside::registers::{ROWS, RegisterFile};

#[test]
fn reused_register_file_is_zero() {
    let is_zero =
        |file: &RegisterFile| file.as_flattened().as_flattened().iter().all(|word| *word == 0);
    for rows in [0, 1, 16, 24, 255, 511, ROWS] {
        let mut file = RegisterFile::zeros();
        assert!(is_zero(&file), "before {rows} rows");
        file.as_flattened_mut().as_flattened_mut().fill(!0);
        file.keep(rows);
        assert!(is_zero(&RegisterFile::zeros()), "after {rows} rows");
    }
}
