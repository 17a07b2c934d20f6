//! Data types and properties for checks, each merged from its ancestors once and cached.

use super::kind::Kind;
use super::types::{PRIMITIVES, Property, Schema, Types};
use crate::yaml::Node;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

pub(super) struct DataType<'a> {
    /// The underlying schema, if the type derives from a primitive.
    pub(super) primitive: Option<Schema<'a>>,
    /// The properties of a complex type.
    pub(super) properties: BTreeMap<&'a str, Property<'a>>,
}

/// Data types by name; `None` for names that are not data types.
pub(super) type DataTypeCache<'a> = RefCell<HashMap<&'a str, Option<Rc<DataType<'a>>>>>;

pub(super) type Properties<'a> = BTreeMap<&'a str, Property<'a>>;

/// Properties by the kind and name of their type.
pub(super) type PropertyCache<'a> = RefCell<HashMap<Kind, HashMap<String, Rc<Properties<'a>>>>>;

impl<'a> Types<'a> {
    /// The properties of a type and its parents; the result is cached.
    pub(super) fn declared(&self, kind: Kind, name: &str) -> Rc<Properties<'a>> {
        let known = self
            .property_cache
            .borrow()
            .get(&kind)
            .and_then(|all| all.get(name).cloned());
        known.unwrap_or_else(|| {
            let properties = Rc::new(self.properties(kind, name));
            let mut cache = self.property_cache.borrow_mut();
            cache
                .entry(kind)
                .or_default()
                .insert(name.to_owned(), properties.clone());
            properties
        })
    }

    /// The data type of this name, if it is declared.
    pub(super) fn data_type(&self, name: &'a str) -> Option<Rc<DataType<'a>>> {
        let known = self.data_type_cache.borrow().get(name).cloned();
        known.unwrap_or_else(|| {
            let data_type = self
                .get(Kind::Data, name)
                .map(|_| Rc::new(self.merge_data_type(name)));
            self.data_type_cache
                .borrow_mut()
                .insert(name, data_type.clone());
            data_type
        })
    }

    fn merge_data_type(&self, name: &str) -> DataType<'a> {
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
