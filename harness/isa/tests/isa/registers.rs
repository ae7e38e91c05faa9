//! Register files that are used again.

use isa::inside::registers::{ROWS, RegisterFile};

#[test]
fn a_file_that_is_used_again_is_all_zeros() {
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
