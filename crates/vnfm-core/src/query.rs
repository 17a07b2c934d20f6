//! Parameters of a list request (SOL013 5.2 to 5.4): which entries, from which id, how many, and which attributes.
//!
//! ```text
//!  filter=(eq,a/b,c);(in,d,e,f)   grammar: text to names and values, each with its column
//!                                 resolve: names to attributes, values to the attribute's type   ─► Filter ─► store
//!  fields=a,b/c  all_fields …     selector: which attributes an entry retains                    ─► server
//! ```
//!
//! A [`Filter`] knows neither SQL nor HTTP: a store compiles it to its own language. It consists only of attributes that
//! the resource has, so no text of a request gets into a statement. [`Filter::holds`] evaluates it directly: for a store
//! in memory, and as a reference for testing others.

mod evaluate;
mod filter_grammar;
mod resolve;
mod selector;
mod visibility;

pub use selector::Selector;
pub use visibility::VisibilityScope;

use vnfm_types::shape::Resource;

/// Which entries to list, ordered by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Only the entries that match this filter.
    pub filter: Filter,
    /// Only entries after this id.
    pub after: Option<String>,
    /// Maximum number of entries; 0: unlimited.
    pub limit: usize,
    /// Only entries visible in this scope.
    pub scope: VisibilityScope,
}

impl Query {
    /// Entries whose `attribute` equals `value`.
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

    /// The operations of one instance, of any state.
    pub fn of_instance(id: impl Into<String>) -> Self {
        Self::only("vnfInstanceId", id)
    }
}

/// A conjunction of terms; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter(pub Vec<Term>);

impl Filter {
    /// Parses a filter on `resource` in the syntax of SOL013 5.2.2.
    ///
    /// # Errors
    ///
    /// On a syntax error, or an attribute that the resource lacks; with the column.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, QuerySyntaxError> {
        let expressions = filter_grammar::parse(text)?;
        expressions
            .iter()
            .map(|one| resolve::term(resource, one))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Splits it into what a store can evaluate, and what needs the resource as served: its links.
    pub fn split_links(self) -> (Self, Self) {
        let is_of_links = |term: &Term| term.hops.first() == Some(&Hop::Member(LINKS));
        let (served, stored) = self.0.into_iter().partition(is_of_links);
        (Self(stored), Self(served))
    }
}

/// The attribute added when a resource is served.
const LINKS: &str = "_links";

/// One comparison: true if any value reached by `hops` compares so.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Path to the values that are compared.
    pub hops: Vec<Hop>,
    /// Type of the values at the path's end.
    pub leaf: Leaf,
    /// Relation between value and operands.
    pub comparison: Comparison,
    /// One, unless the comparison takes several.
    pub operands: Vec<Operand>,
}

/// One element of a path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// The attribute with this name.
    Member(&'static str),
    /// Each entry of a list, or each value of a map. Terms with the same path up to here refer to the same entry.
    Each,
    /// The map entry with this key.
    Entry(String),
    /// A member of free JSON; in a list, of each of its entries.
    Free(String),
}

/// The type of the value at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// A string, compared by its characters.
    Text,
    /// A JSON number, compared by its value.
    Number,
    /// A boolean: `true` or `false`.
    Truth,
    /// A timestamp in UTC, compared by its instant.
    Time,
    /// Any value of free JSON.
    Any,
    /// The keys of a map or object.
    Key,
    /// A secret: no entry matches.
    Hidden,
}

/// How a value is compared with the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `eq`: equal to the operand.
    Eq,
    /// `neq`: not equal to the operand.
    Neq,
    /// `in`: equal to one of several.
    In,
    /// `nin`: equal to none of several.
    Nin,
    /// `gt`: greater than the operand.
    Gt,
    /// `gte`: greater than or equal to it.
    Gte,
    /// `lt`: less than the operand.
    Lt,
    /// `lte`: less than or equal to it.
    Lte,
    /// `cont`: contains one of several.
    Cont,
    /// `ncont`: contains none of several.
    Ncont,
}

/// The right-hand side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A string, or a timestamp in its stored format.
    Text(String),
    /// A number without a fraction.
    Whole(i64),
    /// A number with a fraction.
    Real(f64),
    /// A boolean: `true` or `false`.
    Truth(bool),
}

/// A syntax error in a list parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {why}")]
pub struct QuerySyntaxError {
    /// Position in characters, from 1.
    pub column: usize,
    /// The cause, and what would be valid.
    pub why: String,
}

impl QuerySyntaxError {
    fn at(column: usize, why: impl Into<String>) -> Self {
        Self {
            column,
            why: why.into(),
        }
    }
}
