//! Filters as SQL conditions: an attribute with its own column is compared there, where an index may serve it, and
//! every other one in the JSON document. Everything from a request is a bound value.
//!
//! ```text
//! (eq,vnfInstanceName,a)                                name = $4
//! (eq,instantiatedVnfInfo/vnfcResourceInfo/vduId,a);    EXISTS (SELECT 1 FROM json_each(vnf, '$.….vnfcResourceInfo') r1
//! (cont,instantiatedVnfInfo/vnfcResourceInfo/id,b)        WHERE json_extract(r1.value, '$.vduId') = $4
//!                                                           AND instr(json_extract(r1.value, '$.id'), $5) > 0)
//! ```

use crate::dialect;
use vnfm_core::query::{Comparison, Filter, Hop, Leaf, Operand, Term};

/// A table with the rows of a list.
pub(crate) struct Table {
    /// The column that holds the JSON.
    document: &'static str,
    /// Attributes with their own column or expression of columns.
    columns: &'static [(&'static str, &'static str)],
}

pub(crate) const INSTANCES: Table = Table {
    document: "vnf",
    columns: &[
        ("id", "id"),
        ("vnfInstanceName", "name"),
        ("vnfdId", "vnfd_id"),
        ("instantiationState", "state"),
        ("vnfPkgId", "vnf_pkg_id"),
    ],
};

pub(crate) const OPS: Table = Table {
    document: "op",
    columns: &[
        ("id", "id"),
        ("vnfInstanceId", "instance_id"),
        ("operation", "operation"),
        ("operationState", "state"),
        ("startTime", "started_at"),
        ("isCancelPending", "(cancel IS NOT NULL)"),
        ("cancelMode", "cancel"),
    ],
};

pub(crate) const PACKAGES: Table = Table {
    document: "info",
    columns: &[
        ("id", "id"),
        ("vnfdId", "vnfd_id"),
        (
            "usageState",
            "CASE WHEN EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id)
                OR EXISTS (SELECT 1 FROM ops WHERE next_pkg_id = packages.id AND ended = 0) THEN 'IN_USE' ELSE 'NOT_IN_USE' END",
        ),
    ],
};

pub(crate) const SNAPSHOTS: Table = Table {
    document: "info",
    columns: &[("id", "id")],
};

pub(crate) const LINKS: Table = Table {
    document: "info",
    columns: &[
        ("id", "id"),
        ("name", "name"),
        ("vimId", "vim_id"),
        ("state", "state"),
    ],
};

pub(crate) const VOLUMES: Table = Table {
    document: "info",
    columns: &[
        ("id", "id"),
        ("vimId", "vim_id"),
        ("state", "state"),
        ("usedBy", "used_by"),
    ],
};

pub(crate) const SUBSCRIPTIONS: Table = Table {
    document: "subscription",
    columns: &[("id", "id"), ("callbackUri", "callback")],
};

/// A value that a condition binds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// ` AND …` for a filter, and its values, numbered from `first`; empty if the filter matches everything.
pub(crate) fn condition(table: &Table, filter: &Filter, first: usize) -> (String, Vec<Bound>) {
    if filter.0.is_empty() {
        return (String::new(), Vec::new());
    }
    let mut builder = SqlBuilder {
        table,
        first,
        bound: Vec::new(),
        rows: 0,
    };
    let location = JsonLocation {
        document: table.document.to_owned(),
        path: dialect::ROOT.to_owned(),
        row: None,
    };
    let terms: Vec<_> = filter
        .0
        .iter()
        .map(|term| PendingTerm {
            hops: &term.hops,
            term,
        })
        .collect();
    let condition = builder.all(&location, terms);
    (format!(" AND {condition}"), builder.bound)
}

/// A location in a document.
struct JsonLocation {
    document: String,
    path: String,
    /// Its row, if it is an entry of a list or map.
    row: Option<String>,
}

impl JsonLocation {
    fn of_row(row: &str) -> Self {
        let path = dialect::ROOT.to_owned();
        Self {
            document: dialect::value(row),
            path,
            row: Some(row.to_owned()),
        }
    }

    fn follow(&self, members: &[Hop]) -> Self {
        let mut path = self.path.clone();
        for hop in members {
            if let Hop::Member(name) = hop {
                path = dialect::member(&path, name);
            }
        }
        let row = self.row.clone().filter(|_| members.is_empty());
        Self {
            document: self.document.clone(),
            path,
            row,
        }
    }

    fn each(&self) -> String {
        dialect::each(&self.document, &self.path)
    }

    fn value(&self) -> String {
        match &self.row {
            Some(row) => dialect::value(row),
            None => dialect::extract(&self.document, &self.path),
        }
    }
}

/// A term, and the rest of its path.
#[derive(Clone, Copy)]
struct PendingTerm<'f> {
    hops: &'f [Hop],
    term: &'f Term,
}

impl<'f> PendingTerm<'f> {
    /// Without the first `count` hops.
    fn after(self, count: usize) -> Self {
        PendingTerm {
            hops: &self.hops[count..],
            term: self.term,
        }
    }

    /// The leading members, and the hops after them.
    fn members(self) -> (&'f [Hop], &'f [Hop]) {
        let members = self
            .hops
            .iter()
            .take_while(|hop| matches!(hop, Hop::Member(_)))
            .count();
        self.hops.split_at(members)
    }

    /// The hops up to and including the first list or map whose entries must be searched.
    fn opening(self) -> Option<&'f [Hop]> {
        let (members, rest) = self.members();
        match rest {
            [Hop::Each, _, ..] | [Hop::Entry(_), ..] => Some(&self.hops[..=members.len()]),
            _ => None,
        }
    }
}

struct SqlBuilder<'t> {
    table: &'t Table,
    first: usize,
    bound: Vec<Bound>,
    rows: usize,
}

impl SqlBuilder<'_> {
    fn bind(&mut self, value: Bound) -> String {
        self.bound.push(value);
        format!("${}", self.first + self.bound.len() - 1)
    }

    fn row(&mut self) -> String {
        self.rows += 1;
        format!("r{}", self.rows)
    }

    /// All of `pending_terms` hold at `location`; terms on the same list refer to the same entry of it.
    fn all(&mut self, location: &JsonLocation, mut pending_terms: Vec<PendingTerm<'_>>) -> String {
        let mut parts = Vec::new();
        while let Some(first) = pending_terms.first().copied() {
            let Some(opening) = first.opening() else {
                parts.push(self.one(location, first));
                pending_terms.remove(0);
                continue;
            };
            let (same, others): (Vec<_>, Vec<_>) = pending_terms
                .into_iter()
                .partition(|pending| pending.opening() == Some(opening));
            parts.push(self.entry(location, opening, same));
            pending_terms = others;
        }
        parts.join(" AND ")
    }

    /// One entry of a list, or the map entry with that key, satisfies all of `pending_terms`.
    fn entry(
        &mut self,
        location: &JsonLocation,
        opening: &[Hop],
        pending_terms: Vec<PendingTerm<'_>>,
    ) -> String {
        let location = location.follow(opening);
        let row = self.row();
        let key = match opening.last() {
            Some(Hop::Entry(key)) => {
                let key = self.bind(Bound::Text(key.clone()));
                format!("{} = {key} AND ", dialect::key(&row))
            }
            _ => String::new(),
        };
        let inner = pending_terms
            .into_iter()
            .map(|pending| pending.after(opening.len()))
            .collect();
        let inside = self.all(&JsonLocation::of_row(&row), inner);
        format!(
            "EXISTS (SELECT 1 FROM {} {row} WHERE {key}{inside})",
            location.each()
        )
    }

    /// One term holds at `location`; no further list or map of a known type is on its path.
    fn one(&mut self, location: &JsonLocation, pending: PendingTerm<'_>) -> String {
        let (members, rest) = pending.members();
        if let (None, [Hop::Member(name)], []) = (&location.row, members, rest)
            && location.path == dialect::ROOT
            && let Some((_, column)) = self.table.columns.iter().find(|(known, _)| known == name)
        {
            return self.compare(column, pending.term);
        }
        let location = location.follow(members);
        match (rest, pending.term.leaf) {
            (_, Leaf::Hidden) => "1 = 0".to_owned(),
            ([Hop::Free(name), rest @ ..], _) => {
                self.free(&location.each(), (name, rest), pending.term)
            }
            ([Hop::Each], _) => {
                let row = self.row();
                let compared = self.compare(&dialect::value(&row), pending.term);
                format!(
                    "EXISTS (SELECT 1 FROM {} {row} WHERE {compared})",
                    location.each()
                )
            }
            (_, Leaf::Key) => {
                let row = self.row();
                let compared = self.compare(&dialect::key(&row), pending.term);
                format!(
                    "EXISTS (SELECT 1 FROM {} {row} WHERE {compared})",
                    location.each()
                )
            }
            _ => self.compare(&location.value(), pending.term),
        }
    }

    /// The member of this name among `rows` satisfies the term.
    fn free(&mut self, rows: &str, (name, rest): (&str, &[Hop]), term: &Term) -> String {
        let row = self.row();
        let name = self.bind(Bound::Text(name.to_owned()));
        let inside = match rest {
            [Hop::Free(name), rest @ ..] => {
                let object = self.row();
                let inside = self.free(&dialect::members(&object), (name, rest), term);
                format!(
                    "EXISTS (SELECT 1 FROM {} {object} WHERE {inside})",
                    dialect::objects(&row)
                )
            }
            _ if term.leaf == Leaf::Key => {
                let (object, member) = (self.row(), self.row());
                let compared = self.compare(&dialect::key(&member), term);
                let (objects, members) = (dialect::objects(&row), dialect::members(&object));
                format!(
                    "EXISTS (SELECT 1 FROM {objects} {object}, {members} {member} WHERE {compared})"
                )
            }
            _ => {
                let value_matches = self.compare_any(&row, term);
                let entry = self.row();
                let any_entry = self.compare_any(&entry, term);
                let entries = dialect::entries(&row);
                format!(
                    "({value_matches} OR EXISTS (SELECT 1 FROM {entries} {entry} WHERE {any_entry}))"
                )
            }
        };
        format!(
            "EXISTS (SELECT 1 FROM {rows} {row} WHERE {} = {name} AND {inside})",
            dialect::key(&row)
        )
    }

    /// Compares `value`, whose type is known from the term's leaf; an absent value does not match.
    fn compare(&mut self, value: &str, term: &Term) -> String {
        let part = matches!(term.comparison, Comparison::Cont | Comparison::Ncont);
        let value = match term.leaf {
            Leaf::Number if part => dialect::as_text(value),
            Leaf::Time if !part => dialect::time(value),
            _ => value.to_owned(),
        };
        let time = term.leaf == Leaf::Time && !part;
        let operands: Vec<_> = term
            .operands
            .iter()
            .map(|operand| match bound(operand) {
                Bound::Text(text) if time => Bound::Text(text.trim_end_matches('Z').to_owned()),
                bound => bound,
            })
            .map(|bound| self.bind(bound))
            .collect();
        match term.comparison {
            Comparison::In => format!("{value} IN ({})", operands.join(", ")),
            Comparison::Nin => format!("{value} NOT IN ({})", operands.join(", ")),
            Comparison::Cont => format!("({})", any_part(&value, &operands)),
            Comparison::Ncont => format!("NOT ({})", any_part(&value, &operands)),
            Comparison::Neq => format!("{value} <> {}", operands.join(", ")),
            one => format!("{value} {} {}", sign(one), operands.join(", ")),
        }
    }

    /// Compares the value of a row of free-form JSON, of any type.
    fn compare_any(&mut self, row: &str, term: &Term) -> String {
        let (value, kind) = (dialect::value(row), dialect::kind(row));
        let texts = term.operands.iter().filter_map(|operand| match operand {
            Operand::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let mut found = Vec::new();
        for text in texts {
            match term.comparison {
                Comparison::Cont | Comparison::Ncont => {
                    let part = self.bind(Bound::Text(text.to_owned()));
                    let (in_text, in_number) = (
                        dialect::contains(&value, &part),
                        dialect::contains(&dialect::as_text(&value), &part),
                    );
                    found.push(format!("({kind} = {} AND {in_text})", dialect::TEXT));
                    found.push(format!(
                        "({kind} IN ({}) AND {in_number})",
                        dialect::NUMBERS
                    ));
                }
                comparison => {
                    for reading in Operand::readings(text) {
                        found.extend(self.reading((&kind, &value), sign(comparison), &reading));
                    }
                }
            }
        }
        let found = any(&found);
        match term.comparison {
            Comparison::Neq | Comparison::Nin | Comparison::Ncont => {
                let simple = [
                    dialect::TEXT,
                    dialect::NUMBERS,
                    dialect::TRUE,
                    dialect::FALSE,
                ]
                .join(", ");
                format!("({kind} IN ({simple}) AND NOT ({found}))")
            }
            _ => format!("({found})"),
        }
    }

    /// The value has the operand's type and the comparison holds; `None` if that type has no such comparison.
    fn reading(
        &mut self,
        (kind, value): (&str, &str),
        sign: &str,
        operand: &Operand,
    ) -> Option<String> {
        let kinds = match operand {
            Operand::Text(_) => dialect::TEXT,
            Operand::Whole(_) | Operand::Real(_) => dialect::NUMBERS,
            Operand::Truth(_) if sign != "=" => return None,
            Operand::Truth(true) => return Some(format!("{kind} = {}", dialect::TRUE)),
            Operand::Truth(false) => return Some(format!("{kind} = {}", dialect::FALSE)),
        };
        let operand = self.bind(bound(operand));
        Some(format!(
            "({kind} IN ({kinds}) AND {value} {sign} {operand})"
        ))
    }
}

fn any_part(value: &str, parts: &[String]) -> String {
    let found: Vec<_> = parts
        .iter()
        .map(|part| dialect::contains(value, part))
        .collect();
    any(&found)
}

/// One of the conditions holds. Nested by halves, because SQLite refuses a chain of a thousand.
fn any(conditions: &[String]) -> String {
    match conditions {
        [] => "1 = 0".to_owned(),
        [one] => one.clone(),
        several => {
            let (left, right) = several.split_at(several.len() / 2);
            format!("({} OR {})", any(left), any(right))
        }
    }
}

/// The operator of a comparison; for negated ones in free-form JSON, the operator that is negated.
fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Gt => ">",
        Comparison::Gte => ">=",
        Comparison::Lt => "<",
        Comparison::Lte => "<=",
        _ => "=",
    }
}

fn bound(operand: &Operand) -> Bound {
    match operand {
        Operand::Text(text) => Bound::Text(text.clone()),
        Operand::Whole(number) => Bound::Whole(*number),
        Operand::Real(number) => Bound::Real(*number),
        Operand::Truth(truth) => Bound::Whole(i64::from(*truth)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, INSTANCES, OPS, Table, condition};
    use vnfm_core::query::Filter;
    use vnfm_types::shape::{Resource, VNF_INSTANCES, VNF_LCM_OP_OCCS};

    fn sql_for(table: &Table, resource: &Resource, text: &str) -> (String, Vec<Bound>) {
        condition(table, &Filter::parse(resource, text).unwrap(), 4)
    }

    #[test]
    fn an_attribute_with_a_column_is_compared_there() {
        let (sql, bound) = sql_for(
            &INSTANCES,
            &VNF_INSTANCES,
            "(eq,vnfInstanceName,a);(in,instantiationState,b,c)",
        );
        assert_eq!(sql, " AND name = $4 AND state IN ($5, $6)");
        assert_eq!(bound.len(), 3);
        let (sql, bound) = sql_for(
            &OPS,
            &VNF_LCM_OP_OCCS,
            "(gte,startTime,2026-01-01T00:00:00Z)",
        );
        assert_eq!(sql, " AND rtrim(started_at, 'Z') >= $4");
        assert_eq!(bound, [Bound::Text("2026-01-01T00:00:00".into())]);
        assert_eq!(
            condition(&OPS, &Filter::default(), 4),
            (String::new(), Vec::new())
        );
    }

    #[test]
    fn terms_on_the_same_list_refer_to_the_same_entry() {
        let text = "(eq,instantiatedVnfInfo/vnfcResourceInfo/vduId,a);\
                    (cont,instantiatedVnfInfo/vnfcResourceInfo/id,b)";
        let (sql, _) = sql_for(&INSTANCES, &VNF_INSTANCES, text);
        assert_eq!(sql.matches("EXISTS").count(), 1, "{sql}");
    }

    /// Prepares a filter's SQL in SQLite.
    fn compiled(text: &str) -> Result<(), String> {
        let (sql, bound) = sql_for(&INSTANCES, &VNF_INSTANCES, text);
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE instances (id, name, vnfd_id, state, vnf_pkg_id, vnf)")
            .unwrap();
        let sql = format!("SELECT 1 FROM instances WHERE id = $1 AND id = $2 AND id = $3{sql}");
        let prepared = db
            .prepare(&sql)
            .map(|statement| statement.parameter_count());
        let count = prepared.map_err(|error| format!("{error}: {} bytes", sql.len()))?;
        assert_eq!(count, bound.len() + 3);
        Ok(())
    }

    /// SQLite must accept every filter that the grammar accepts.
    #[test]
    fn the_largest_filter_of_the_grammar_compiles() {
        let path = |names: usize| format!("metadata{}", "/a".repeat(names - 1));
        let longest_path = (2..100).rev().find(|names| {
            Filter::parse(&VNF_INSTANCES, &format!("(eq,{},x)", path(*names))).is_ok()
        });
        let longest_path = path(longest_path.unwrap());
        let values = vec!["1"; 500].join(",");
        for operator in ["eq", "neq", "gt", "lte", "cont", "ncont", "in", "nin"] {
            compiled(&format!("({operator},{longest_path},1)")).unwrap();
            let fifty = vec![format!("({operator},{longest_path},1)"); 50].join(";");
            compiled(&fifty).unwrap();
        }
        for operator in ["in", "nin", "cont", "ncont"] {
            compiled(&format!("({operator},{longest_path},{values})")).unwrap();
            compiled(&format!("({operator},vnfInstanceName,{values})")).unwrap();
        }
        compiled(&format!("(eq,{longest_path}/@key,1)").replacen("/a/@key", "/@key", 1)).unwrap();
    }

    #[test]
    fn no_text_of_a_request_gets_into_the_statement() {
        let text =
            "(eq,metadata/pl'ain/anted,'planted''');(eq,vimConnectionInfo/planted/vimId,planted)";
        let (sql, _) = sql_for(&INSTANCES, &VNF_INSTANCES, text);
        assert!(!sql.contains("anted"), "{sql}");
    }
}
