//! The writer of canonical JSON beside another one, on values of every shape.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::canonical::encode;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-c]{0,3}", "\\PC{0,6}", any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..1 << 53).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..8).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn both_writers_agree(value in values()) {
        prop_assert_eq!(encode(&value).unwrap(), serde_json_canonicalizer::to_vec(&value).unwrap());
    }
}

#[derive(Serialize)]
enum Shape {
    Unit,
    New(u8),
    Tuple(u8, &'static str),
    Struct { z: u8, a: Option<()>, m: char },
}

#[derive(Serialize)]
struct Pair(u8, [u8; 2]);

#[derive(Serialize)]
struct Nested {
    shapes: Vec<Shape>,
    pair: Pair,
    none: Option<u8>,
}

#[test]
fn every_shape_of_rust_is_written() {
    let shapes = vec![Shape::Unit, Shape::New(1), Shape::Tuple(2, "x"), Shape::Struct { z: 3, a: Some(()), m: 'é' }];
    let nested = Nested { shapes, pair: Pair(4, [5, 6]), none: None };
    let spelled = r#"{"none":null,"pair":[4,[5,6]],"shapes":["Unit",{"New":1},{"Tuple":[2,"x"]},{"Struct":{"a":null,"m":"é","z":3}}]}"#;
    assert_eq!(String::from_utf8(encode(&nested).unwrap()).unwrap(), spelled);
    assert_eq!(serde_json_canonicalizer::to_vec(&nested).unwrap(), spelled.as_bytes());
}

#[test]
fn a_key_that_is_no_text_and_a_key_twice_are_refused() {
    assert!(encode(&std::collections::BTreeMap::from([(1, 2)])).is_err());
    struct Twice;
    impl Serialize for Twice {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([("b", 1), ("a", 2), ("b", 3)])
        }
    }
    assert!(encode(&Twice).unwrap_err().to_string().contains("twice"));
}
