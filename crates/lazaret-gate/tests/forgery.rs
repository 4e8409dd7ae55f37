//! What must not compile: a permit that no stage made, a stage left out, a permit used twice.

#[test]
fn no_way_to_a_permit_but_through_the_stages() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
