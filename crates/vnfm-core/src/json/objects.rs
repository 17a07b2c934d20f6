//! Detects lists where an object is expected. Serde reads `[]` as an object without members, and `["a", "b"]` as one
//! with its first two members, at any depth: `"policy": []` would remove a policy. This module deserializes a body a
//! second time and refuses a list wherever one of our types is an object.
//!
//! Values that serde buffers before it knows the type (flattened members) are not checked; they hold only maps.

use super::path;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// The message that identifies this error; other errors of the second pass are ignored.
const LIST: &str = "it is a list instead of an object";

/// The path of a list where `T` expects an object, and the message.
pub(super) fn list_for_object<T: DeserializeOwned>(
    value: &Value,
) -> Option<(String, &'static str)> {
    let read = path::deserialize::<_, T>(Strict(value));
    let error = read.err().filter(|error| error.cause.to_string() == LIST)?;
    Some((error.path, LIST))
}

/// Deserializes like serde, but accepts only objects for structs.
struct Strict<'de>(&'de Value);

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.iter())),
            Value::Object(members) => visitor.visit_map(Members::new(members)),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.is_array() {
            Err(Error::custom(LIST))
        } else {
            self.deserialize_any(visitor)
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(members) => {
                visitor.visit_enum(MapAccessDeserializer::new(Members::new(members)))
            }
            scalar => scalar.deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'de>(std::slice::Iter<'de, Value>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0
            .next()
            .map(|item| seed.deserialize(Strict(item)))
            .transpose()
    }
}

struct Members<'de> {
    remaining: serde_json::map::Iter<'de>,
    value: Option<&'de Value>,
}

impl<'de> Members<'de> {
    fn new(members: &'de Map<String, Value>) -> Self {
        Self {
            remaining: members.iter(),
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.remaining.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(name.as_str().into_deserializer())
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Strict(self.value.take().unwrap_or(&Value::Null)))
    }
}
