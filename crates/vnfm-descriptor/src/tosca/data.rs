//! Types as values and templates are checked against them: each is put together once, however many there are.

use super::types::{Kind, PRIMITIVES, Property, Schema, Types};
use crate::yaml::Node;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A declared data type.
pub(super) struct DataType<'a> {
    /// What a value is in truth, where the type derives from a primitive.
    pub(super) primitive: Option<Schema<'a>>,
    /// The properties of one that does not.
    pub(super) properties: BTreeMap<&'a str, Property<'a>>,
}

/// What was asked for; `None` for what is no data type.
pub(super) type Known<'a> = RefCell<HashMap<&'a str, Option<Rc<DataType<'a>>>>>;

/// Declared properties by name.
pub(super) type Properties<'a> = BTreeMap<&'a str, Property<'a>>;

/// The properties of the types that were asked for.
pub(super) type KnownProperties<'a> = RefCell<HashMap<Kind, HashMap<String, Rc<Properties<'a>>>>>;

impl<'a> Types<'a> {
    /// The properties of a type, as [`Types::properties`] tells them; put together once.
    pub(super) fn declared(&self, kind: Kind, name: &str) -> Rc<Properties<'a>> {
        let known = self
            .known_properties
            .borrow()
            .get(&kind)
            .and_then(|all| all.get(name).cloned());
        known.unwrap_or_else(|| {
            let made = Rc::new(self.properties(kind, name));
            let mut known = self.known_properties.borrow_mut();
            known
                .entry(kind)
                .or_default()
                .insert(name.to_owned(), made.clone());
            made
        })
    }

    /// The data type of this name, if it is declared.
    pub(super) fn data_type(&self, name: &'a str) -> Option<Rc<DataType<'a>>> {
        let known = self.known.borrow().get(name).cloned();
        known.unwrap_or_else(|| {
            let made = self
                .get(Kind::Data, name)
                .map(|_| Rc::new(self.put_together(name)));
            self.known.borrow_mut().insert(name, made.clone());
            made
        })
    }

    fn put_together(&self, name: &str) -> DataType<'a> {
        let chain = self.ancestry(Kind::Data, name);
        let root = chain
            .last()
            .and_then(|last| last.get("derived_from"))
            .and_then(Node::as_str);
        let primitive = root.filter(|root| PRIMITIVES.contains(root)).map(|kind| {
            let all = chain.iter().filter_map(|node| node.get("constraints"));
            let entry = chain.iter().find_map(|node| node.get("entry_schema"));
            Schema {
                kind,
                entry,
                constraints: all.flat_map(Node::items).collect(),
            }
        });
        let properties = match primitive {
            Some(_) => BTreeMap::new(),
            None => self.properties(Kind::Data, name),
        };
        DataType {
            primitive,
            properties,
        }
    }
}
