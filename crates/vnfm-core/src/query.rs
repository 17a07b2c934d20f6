//! What a list is asked for (SOL013 5.2 to 5.4): which entries, from where on, how many, and which attributes of them.
//!
//! ```text
//!  filter=(eq,a/b,c);(in,d,e,f)   grammar: text to names and values, each with its column
//!                                 resolve: names to attributes, values to what the attribute holds   ─► Filter ─► store
//!  fields=a,b/c  all_fields …     selector: which attributes an answer keeps                         ─► server
//! ```
//!
//! A [`Filter`] knows neither SQL nor HTTP: a store spells it in its own language, and it can only be made of
//! attributes that the resource has, so nothing of a request's text gets into a statement. [`Filter::holds`] reads one
//! plainly: for a store in memory, and to try the others with.

mod grammar;
mod holds;
mod resolve;
mod selector;
mod sight;

pub use selector::Selector;
pub use sight::Sight;

use vnfm_types::shape::Resource;

/// Which entries a list is to hold, in order of id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Only those for which all of this holds.
    pub filter: Filter,
    /// Only those after this id.
    pub after: Option<String>,
    /// At most so many; 0: all.
    pub limit: usize,
    /// Only those that are seen so.
    pub sight: Sight,
}

impl Query {
    /// Those in which `attribute` is `value`.
    pub fn only(attribute: &'static str, value: impl Into<String>) -> Self {
        let term = Term {
            hops: vec![Hop::Member(attribute)],
            leaf: Leaf::Text,
            comparison: Comparison::Eq,
            operands: vec![Operand::Text(value.into())],
        };
        Self {
            filter: Filter(vec![term]),
            ..Self::default()
        }
    }

    /// The operations of an instance.
    pub fn of_instance(id: impl Into<String>) -> Self {
        Self::only("vnfInstanceId", id)
    }
}

/// What has to hold of an entry: all of its terms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter(pub Vec<Term>);

impl Filter {
    /// Reads a filter of `resource` as SOL013 5.2.2 spells it.
    ///
    /// # Errors
    ///
    /// Where it is not of that form, or says what the resource does not have; with the column.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, IllFormed> {
        let expressions = grammar::parse(text)?;
        expressions
            .iter()
            .map(|one| resolve::term(resource, one))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// What a store can tell, and what only the resource as it is served can: its links.
    pub fn parted(self) -> (Self, Self) {
        let is_of_links = |term: &Term| term.hops.first() == Some(&Hop::Member(LINKS));
        let (served, stored) = self.0.into_iter().partition(is_of_links);
        (Self(stored), Self(served))
    }
}

/// The attribute that is made when a resource is served.
const LINKS: &str = "_links";

/// One comparison: true where any of the values that `hops` lead to compares so.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The way to the values.
    pub hops: Vec<Hop>,
    /// What lies at its end.
    pub leaf: Leaf,
    /// How they are compared.
    pub comparison: Comparison,
    /// With what; one where the comparison takes one.
    pub operands: Vec<Operand>,
}

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// The attribute of this name.
    Member(&'static str),
    /// Each entry of the list that is reached, or each value of the map. Terms with the same way up to here speak of the
    /// same entry.
    Each,
    /// The entry of the map that is reached, by its key.
    Entry(String),
    /// A member of free JSON; where that is a list, of each of its entries.
    Free(String),
}

/// What lies at the end of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// Text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Truth,
    /// A point in time, in UTC.
    Time,
    /// Whatever free JSON holds there.
    Any,
    /// The keys of the map or of the object.
    Key,
    /// Nothing that is ever shown: no entry has it.
    Hidden,
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Neq,
    /// One of several.
    In,
    /// None of several.
    Nin,
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// Contains one of several.
    Cont,
    /// Contains none of several.
    Ncont,
}

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Text; a point in time as it is stored.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Real(f64),
    /// True or false.
    Truth(bool),
}

/// Why something that was asked cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {why}")]
pub struct IllFormed {
    /// Where, in characters, from 1.
    pub column: usize,
    /// Why, and what would be right.
    pub why: String,
}

impl IllFormed {
    fn at(column: usize, why: impl Into<String>) -> Self {
        Self {
            column,
            why: why.into(),
        }
    }
}
