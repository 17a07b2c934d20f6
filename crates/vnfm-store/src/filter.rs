//! Filters as conditions of SQL: an attribute that has a column is compared there, where an index may serve it, and
//! every other one in the JSON beside it. Whatever a request said is a bound value.
//!
//! ```text
//! (eq,vnfInstanceName,a)                                name = $4
//! (eq,instantiatedVnfInfo/vnfcResourceInfo/vduId,a);    EXISTS (SELECT 1 FROM json_each(vnf, '$.….vnfcResourceInfo') r1
//! (cont,instantiatedVnfInfo/vnfcResourceInfo/id,b)        WHERE json_extract(r1.value, '$.vduId') = $4
//!                                                           AND instr(json_extract(r1.value, '$.id'), $5) > 0)
//! ```

use crate::dialect;
use vnfm_core::query::{Comparison, Filter, Hop, Leaf, Operand, Term};

/// Where the rows of a list are.
pub(crate) struct Table {
    /// The column that holds the JSON.
    document: &'static str,
    /// Attributes with a column, or an expression of columns, of their own.
    columns: &'static [(&'static str, &'static str)],
}

/// Of instances.
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

/// Of operation occurrences.
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

/// Of packages.
pub(crate) const PACKAGES: Table = Table {
    document: "info",
    columns: &[
        ("id", "id"),
        ("vnfdId", "vnfd_id"),
        (
            "usageState",
            "CASE WHEN EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id) THEN 'IN_USE' ELSE 'NOT_IN_USE' END",
        ),
    ],
};

/// Of subscriptions.
pub(crate) const SUBSCRIPTIONS: Table = Table {
    document: "subscription",
    columns: &[("id", "id"), ("callbackUri", "callback")],
};

/// A value to bind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// ` AND …` for a filter, and its values, the first of which is number `first`; empty where everything fits.
pub(crate) fn condition(table: &Table, filter: &Filter, first: usize) -> (String, Vec<Bound>) {
    if filter.0.is_empty() {
        return (String::new(), Vec::new());
    }
    let mut spelling = Spelling {
        table,
        first,
        bound: Vec::new(),
        rows: 0,
    };
    let place = Place {
        document: table.document.to_owned(),
        path: dialect::ROOT.to_owned(),
        row: None,
    };
    let terms: Vec<_> = filter
        .0
        .iter()
        .map(|term| Way {
            hops: &term.hops,
            term,
        })
        .collect();
    let condition = spelling.all(&place, terms);
    (format!(" AND {condition}"), spelling.bound)
}

/// Where in a document one is.
struct Place {
    document: String,
    path: String,
    /// The row that it is, where it is an entry of a list or of a map.
    row: Option<String>,
}

impl Place {
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

/// A term, and what is left of its way.
#[derive(Clone, Copy)]
struct Way<'f> {
    hops: &'f [Hop],
    term: &'f Term,
}

impl<'f> Way<'f> {
    /// What is left of it behind `count` hops.
    fn after(self, count: usize) -> Self {
        Way {
            hops: &self.hops[count..],
            term: self.term,
        }
    }

    /// The members that it begins with, and what comes then.
    fn members(self) -> (&'f [Hop], &'f [Hop]) {
        let members = self
            .hops
            .iter()
            .take_while(|hop| matches!(hop, Hop::Member(_)))
            .count();
        self.hops.split_at(members)
    }

    /// The members up to the first list or map and that one, where something is to be looked for in its entries.
    fn opening(self) -> Option<&'f [Hop]> {
        let (members, rest) = self.members();
        match rest {
            [Hop::Each, _, ..] | [Hop::Entry(_), ..] => Some(&self.hops[..=members.len()]),
            _ => None,
        }
    }
}

struct Spelling<'t> {
    table: &'t Table,
    first: usize,
    bound: Vec<Bound>,
    rows: usize,
}

impl Spelling<'_> {
    fn bind(&mut self, value: Bound) -> String {
        self.bound.push(value);
        format!("${}", self.first + self.bound.len() - 1)
    }

    fn row(&mut self) -> String {
        self.rows += 1;
        format!("r{}", self.rows)
    }

    /// That all of `ways` hold from `place` on; those that go into the same list speak of the same entry of it.
    fn all(&mut self, place: &Place, mut ways: Vec<Way<'_>>) -> String {
        let mut parts = Vec::new();
        while let Some(first) = ways.first().copied() {
            let Some(opening) = first.opening() else {
                parts.push(self.one(place, first));
                ways.remove(0);
                continue;
            };
            let (same, others): (Vec<_>, Vec<_>) = ways
                .into_iter()
                .partition(|way| way.opening() == Some(opening));
            parts.push(self.entry(place, opening, same));
            ways = others;
        }
        parts.join(" AND ")
    }

    /// That one entry of a list, or the entry of a map with that key, is as all of `ways` say.
    fn entry(&mut self, place: &Place, opening: &[Hop], ways: Vec<Way<'_>>) -> String {
        let place = place.follow(opening);
        let row = self.row();
        let key = match opening.last() {
            Some(Hop::Entry(key)) => {
                let key = self.bind(Bound::Text(key.clone()));
                format!("{} = {key} AND ", dialect::key(&row))
            }
            _ => String::new(),
        };
        let deeper = ways
            .into_iter()
            .map(|way| way.after(opening.len()))
            .collect();
        let inside = self.all(&Place::of_row(&row), deeper);
        format!(
            "EXISTS (SELECT 1 FROM {} {row} WHERE {key}{inside})",
            place.each()
        )
    }

    /// That one term holds from `place` on, whose way goes into no list or map of a known type any more.
    fn one(&mut self, place: &Place, way: Way<'_>) -> String {
        let (members, rest) = way.members();
        if let (None, [Hop::Member(name)], []) = (&place.row, members, rest)
            && place.path == dialect::ROOT
            && let Some((_, column)) = self.table.columns.iter().find(|(known, _)| known == name)
        {
            return self.compare(column, way.term);
        }
        let place = place.follow(members);
        match (rest, way.term.leaf) {
            (_, Leaf::Hidden) => "1 = 0".to_owned(),
            ([Hop::Free(name), rest @ ..], _) => self.free(&place.each(), (name, rest), way.term),
            ([Hop::Each], _) => {
                let row = self.row();
                let compared = self.compare(&dialect::value(&row), way.term);
                format!(
                    "EXISTS (SELECT 1 FROM {} {row} WHERE {compared})",
                    place.each()
                )
            }
            (_, Leaf::Key) => {
                let row = self.row();
                let compared = self.compare(&dialect::key(&row), way.term);
                format!(
                    "EXISTS (SELECT 1 FROM {} {row} WHERE {compared})",
                    place.each()
                )
            }
            _ => self.compare(&place.value(), way.term),
        }
    }

    /// That of the members in `rows` the one of this name leads to what the term says.
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
                let itself = self.compare_any(&row, term);
                let entry = self.row();
                let of_it = self.compare_any(&entry, term);
                let entries = dialect::entries(&row);
                format!("({itself} OR EXISTS (SELECT 1 FROM {entries} {entry} WHERE {of_it}))")
            }
        };
        format!(
            "EXISTS (SELECT 1 FROM {rows} {row} WHERE {} = {name} AND {inside})",
            dialect::key(&row)
        )
    }

    /// How `value`, which is of the kind that the term's leaf says, compares; what is absent does not.
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

    /// How the value of a row of free JSON compares, whatever kind it is.
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

    /// That a value is of the kind of `operand` and compares so; `None` where that kind is not compared so.
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

/// That one of these holds, halved again and again: SQLite refuses a chain of a thousand.
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

/// The sign of a comparison; where it is negated, of what it negates in free JSON.
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

    fn spelt(table: &Table, resource: &Resource, text: &str) -> (String, Vec<Bound>) {
        condition(table, &Filter::parse(resource, text).unwrap(), 4)
    }

    #[test]
    fn an_attribute_with_a_column_is_compared_there() {
        let (sql, bound) = spelt(
            &INSTANCES,
            &VNF_INSTANCES,
            "(eq,vnfInstanceName,a);(in,instantiationState,b,c)",
        );
        assert_eq!(sql, " AND name = $4 AND state IN ($5, $6)");
        assert_eq!(bound.len(), 3);
        let (sql, bound) = spelt(
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
    fn what_goes_into_the_same_list_speaks_of_the_same_entry() {
        let text = "(eq,instantiatedVnfInfo/vnfcResourceInfo/vduId,a);\
                    (cont,instantiatedVnfInfo/vnfcResourceInfo/id,b)";
        let (sql, _) = spelt(&INSTANCES, &VNF_INSTANCES, text);
        assert_eq!(sql.matches("EXISTS").count(), 1, "{sql}");
    }

    /// What SQLite says to a filter, as it is prepared.
    fn compiled(text: &str) -> Result<(), String> {
        let (sql, bound) = spelt(&INSTANCES, &VNF_INSTANCES, text);
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

    /// The grammar refuses by name what is beyond; whatever it takes, the database has to take.
    #[test]
    fn the_largest_filter_that_the_grammar_takes_compiles() {
        let path = |names: usize| format!("metadata{}", "/a".repeat(names - 1));
        let most = (2..100).rev().find(|names| {
            Filter::parse(&VNF_INSTANCES, &format!("(eq,{},x)", path(*names))).is_ok()
        });
        let most = path(most.unwrap());
        let values = vec!["1"; 500].join(",");
        for operator in ["eq", "neq", "gt", "lte", "cont", "ncont", "in", "nin"] {
            compiled(&format!("({operator},{most},1)")).unwrap();
            let fifty = vec![format!("({operator},{most},1)"); 50].join(";");
            compiled(&fifty).unwrap();
        }
        for operator in ["in", "nin", "cont", "ncont"] {
            compiled(&format!("({operator},{most},{values})")).unwrap();
            compiled(&format!("({operator},vnfInstanceName,{values})")).unwrap();
        }
        compiled(&format!("(eq,{most}/@key,1)").replacen("/a/@key", "/@key", 1)).unwrap();
    }

    #[test]
    fn nothing_of_a_request_gets_into_the_statement() {
        let text =
            "(eq,metadata/pl'ain/anted,'planted''');(eq,vimConnectionInfo/planted/vimId,planted)";
        let (sql, _) = spelt(&INSTANCES, &VNF_INSTANCES, text);
        assert!(!sql.contains("anted"), "{sql}");
    }
}
