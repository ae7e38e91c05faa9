//! Tests the record of which bytes are initialised.

use std::ops::Range;

use isa::Written;

#[test]
fn one_bit_per_byte() {
    let written = Written::new(1000, 200);
    written.set(1060..1070, true);
    #[track_caller]
    fn check(written: &Written, range: Range<u64>, any: bool) {
        assert_eq!(written.any(range.clone()), any, "{range:?}");
    }
    check(&written, 1000..1060, false);
    check(&written, 1059..1061, true);
    check(&written, 1063..1064, true);
    check(&written, 1064..1065, true);
    check(&written, 1070..1300, false);
    check(&written, 0..5000, true);
    check(&written, 1065..1065, false);
    written.set(1062..1069, false);
    check(&written, 1062..1069, false);
    check(&written, 1061..1062, true);
    assert!(written.all(1060..1062) && !written.all(1060..1063));
    written.set(0..u64::MAX, true);
    check(&written, 1199..1200, true);
    check(&written, 1200..1201, false);
}
