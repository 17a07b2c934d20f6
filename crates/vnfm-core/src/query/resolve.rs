//! Resolves names to attributes of the resource, and values to the types of those attributes.

use super::filter_grammar::{Expression, Name, Spanned};
use super::{Comparison, Hop, Leaf, Operand, QuerySyntaxError, Term};
use vnfm_types::shape::{Attribute, Many, Resource, Shape, Type};

/// Resolves an expression against a resource.
pub(super) fn term(resource: &Resource, written: &Expression) -> Result<Term, QuerySyntaxError> {
    let (hops, leaf) = path(resource.type_description(), &written.names)?;
    let comparison = written.comparison;
    if leaf == Leaf::Truth && !is_about_equality(comparison) {
        let column = written.names.last().map_or(1, |name| name.text.column);
        return Err(QuerySyntaxError::at(
            column,
            "true and false can only be compared with eq, neq, in and nin",
        ));
    }
    let text = matches!(comparison, Comparison::Cont | Comparison::Ncont);
    let operands = written
        .values
        .iter()
        .map(|value| operand(value, leaf, text));
    Ok(Term {
        hops,
        leaf,
        comparison,
        operands: operands.collect::<Result<_, _>>()?,
    })
}

fn is_about_equality(comparison: Comparison) -> bool {
    matches!(
        comparison,
        Comparison::Eq | Comparison::Neq | Comparison::In | Comparison::Nin
    )
}

/// The current node while a path is resolved.
enum Node {
    Within(&'static Type),
    Map(&'static Attribute),
    Free {
        root: bool,
    },
    /// The `_links` of a resource of this type.
    Links(&'static Type),
    /// One of the links below `_links`.
    Link,
    Value(Leaf),
}

fn path(of: &'static Type, names: &[Name]) -> Result<(Vec<Hop>, Leaf), QuerySyntaxError> {
    let (mut node, mut hops) = (Node::Within(of), Vec::new());
    for name in names {
        let column = name.text.column;
        node = match node {
            Node::Within(of) => member(of, name, &mut hops)?,
            Node::Map(_) | Node::Free { .. } if name.key => Node::Value(Leaf::Key),
            Node::Map(map) => {
                hops.push(Hop::Entry(name.text.text.clone()));
                inside(map)
            }
            Node::Free { .. } => {
                hops.push(Hop::Free(name.text.text.clone()));
                Node::Free { root: false }
            }
            Node::Links(of) => {
                hops.push(Hop::Free(name.text.text.clone()));
                link(of, name)?
            }
            Node::Link if !name.key && name.text.text == "href" => {
                hops.push(Hop::Free("href".to_owned()));
                Node::Value(Leaf::Text)
            }
            Node::Link => return Err(QuerySyntaxError::at(column, "a link has only `href`")),
            Node::Value(Leaf::Hidden) => Node::Value(Leaf::Hidden),
            Node::Value(_) => {
                let why = format!(
                    "the attribute has no members, so `{}` is invalid",
                    name.text.text
                );
                return Err(QuerySyntaxError::at(column, why));
            }
        };
    }
    let column = names.last().map_or(1, |name| name.text.column);
    Ok((hops, leaf(&node, column)?))
}

/// The type of the value where a path ends.
fn leaf(node: &Node, column: usize) -> Result<Leaf, QuerySyntaxError> {
    match node {
        Node::Value(leaf) => Ok(*leaf),
        Node::Free { root: false } => Ok(Leaf::Any),
        Node::Free { root: true } => Err(QuerySyntaxError::at(
            column,
            "this is an object: continue with `/` and one of its members, or `/@key`",
        )),
        Node::Map(_) => Err(QuerySyntaxError::at(
            column,
            "this is a map: continue with `/` and a key, or `/@key`",
        )),
        Node::Links(of) => {
            let why = format!(
                "this is a structure: continue with `/` and one of {}",
                of.links().join(", ")
            );
            Err(QuerySyntaxError::at(column, why))
        }
        Node::Link => Err(QuerySyntaxError::at(
            column,
            "this is a link: continue with `/href`",
        )),
        Node::Within(of) => {
            let why = format!(
                "this is a structure: continue with `/` and one of {}",
                of.names()
            );
            Err(QuerySyntaxError::at(column, why))
        }
    }
}

fn member(of: &'static Type, name: &Name, hops: &mut Vec<Hop>) -> Result<Node, QuerySyntaxError> {
    let column = name.text.column;
    if name.key {
        return Err(QuerySyntaxError::at(
            column,
            format!("`{}` is not a map, so it has no `@key`", of.name),
        ));
    }
    let Some(attribute) = of.attribute(&name.text.text) else {
        let (text, has) = (&name.text.text, of.names());
        let why = format!("`{}` has no attribute `{text}`; it has {has}", of.name);
        return Err(QuerySyntaxError::at(column, why));
    };
    hops.push(Hop::Member(attribute.name));
    match attribute.many {
        Many::Map => return Ok(Node::Map(attribute)),
        Many::List => hops.push(Hop::Each),
        Many::One => {}
    }
    match attribute.shape {
        Shape::Links => Ok(Node::Links(of)),
        Shape::Key => {
            // Shown as a member of each entry, but it is the key of the map.
            hops.truncate(hops.len().saturating_sub(2));
            Ok(Node::Value(Leaf::Key))
        }
        _ => Ok(inside(attribute)),
    }
}

/// Resolves one of the links of a type.
fn link(of: &'static Type, name: &Name) -> Result<Node, QuerySyntaxError> {
    if !name.key && of.links().contains(&name.text.text.as_str()) {
        return Ok(Node::Link);
    }
    let (text, has) = (&name.text.text, of.links().join(", "));
    let why = format!("`{}` has no link `{text}`; it has {has}", of.name);
    Err(QuerySyntaxError::at(name.text.column, why))
}

/// The node for one value of an attribute.
fn inside(attribute: &'static Attribute) -> Node {
    match attribute.shape {
        Shape::Structure(of) => Node::Within(of),
        Shape::Free => Node::Free { root: true },
        Shape::Text | Shape::Links => Node::Value(Leaf::Text),
        Shape::Number => Node::Value(Leaf::Number),
        Shape::Truth => Node::Value(Leaf::Truth),
        Shape::Time => Node::Value(Leaf::Time),
        Shape::Hidden => Node::Value(Leaf::Hidden),
        Shape::Key => Node::Value(Leaf::Key),
    }
}

fn operand(value: &Spanned, leaf: Leaf, as_text: bool) -> Result<Operand, QuerySyntaxError> {
    let wanted = |what: &str| {
        let why = format!(
            "`{}` is not a {what}, which the attribute requires",
            value.text
        );
        QuerySyntaxError::at(value.column, why)
    };
    match leaf {
        _ if as_text => Ok(Operand::Text(value.text.clone())),
        Leaf::Number => number(&value.text).ok_or_else(|| wanted("number")),
        Leaf::Truth => truth(&value.text).ok_or_else(|| wanted("`true` or `false`")),
        Leaf::Time => {
            let time: jiff::Timestamp =
                value.text.parse().map_err(|_| wanted("time of RFC 3339"))?;
            Ok(Operand::Text(time.to_string()))
        }
        _ => Ok(Operand::Text(value.text.clone())),
    }
}

/// A number in JSON syntax.
pub(super) fn number(text: &str) -> Option<Operand> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(number) => match number.as_i64() {
            Some(full_entry) => Some(Operand::Whole(full_entry)),
            None => number.as_f64().map(Operand::Real),
        },
        Err(_) => None,
    }
}

fn truth(text: &str) -> Option<Operand> {
    match text {
        "true" => Some(Operand::Truth(true)),
        "false" => Some(Operand::Truth(false)),
        _ => None,
    }
}

impl Operand {
    /// All interpretations of a text that is compared with free JSON.
    pub fn readings(text: &str) -> Vec<Operand> {
        let mut readings = vec![Operand::Text(text.to_owned())];
        readings.extend(number(text));
        readings.extend(truth(text));
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Comparison, Filter, Hop, Leaf, Operand, Term};
    use vnfm_types::shape::{Resource, VNF_INSTANCES, VNF_INSTANCES_V1, VNF_LCM_OP_OCCS};

    fn one(resource: &Resource, text: &str) -> Term {
        let mut filter = Filter::parse(resource, text).unwrap();
        assert_eq!(filter.0.len(), 1);
        filter.0.remove(0)
    }

    #[test]
    fn names_resolve_to_a_path() {
        let address = "instantiatedVnfInfo/vnfcResourceInfo/vnfcCpInfo/cpProtocolInfo/ipOverEthernet/ipAddresses/addresses";
        let term = one(&VNF_INSTANCES, &format!("(eq,{address},192.0.2.1)"));
        assert_eq!(term.hops.iter().filter(|hop| **hop == Hop::Each).count(), 5);
        assert_eq!(
            (term.hops.last(), term.leaf),
            (Some(&Hop::Each), Leaf::Text)
        );
        let term = one(&VNF_INSTANCES, "(eq,vimConnectionInfo/vim~11/vimType,x)");
        let hops = [
            Hop::Member("vimConnectionInfo"),
            Hop::Entry("vim/1".into()),
            Hop::Member("vimType"),
        ];
        assert_eq!((&term.hops[..], term.leaf), (&hops[..], Leaf::Text));
        let term = one(&VNF_INSTANCES, "(eq,metadata/a/b,x)");
        assert_eq!(
            term.hops[1..],
            [Hop::Free("a".into()), Hop::Free("b".into())]
        );
        assert_eq!(term.leaf, Leaf::Any);
        assert_eq!(
            one(&VNF_INSTANCES, "(eq,metadata/a/@key,x)").leaf,
            Leaf::Key
        );
        assert_eq!(
            one(&VNF_INSTANCES, "(in,vimConnectionInfo/@key,x,y)").leaf,
            Leaf::Key
        );
        let term = one(&VNF_INSTANCES_V1, "(eq,vimConnectionInfo/vimType,x)");
        assert_eq!(
            term.hops[..2],
            [Hop::Member("vimConnectionInfo"), Hop::Each]
        );
        let term = one(&VNF_INSTANCES_V1, "(eq,vimConnectionInfo/id,x)");
        assert_eq!((&term.hops[..], term.leaf), (&hops[..1], Leaf::Key));
        let secret = one(
            &VNF_INSTANCES,
            "(cont,vimConnectionInfo/v/accessInfo/password,x)",
        );
        assert_eq!(secret.leaf, Leaf::Hidden);
    }

    #[test]
    fn values_take_the_type_of_the_attribute() {
        let operand = |text: &str| one(&VNF_LCM_OP_OCCS, text).operands.remove(0);
        assert_eq!(operand("(eq,error/status,503)"), Operand::Whole(503));
        assert_eq!(operand("(lt,error/status,503.5)"), Operand::Real(503.5));
        assert_eq!(
            operand("(cont,error/status,03)"),
            Operand::Text("03".into())
        );
        assert_eq!(operand("(eq,isCancelPending,false)"), Operand::Truth(false));
        let time = operand("(gt,startTime,2026-01-01T02:00:00.10+02:00)");
        assert_eq!(time, Operand::Text("2026-01-01T00:00:00.1Z".into()));
        assert_eq!(
            one(&VNF_LCM_OP_OCCS, "(gt,startTime,2026-01-01T00:00:00Z)").comparison,
            Comparison::Gt
        );
        assert_eq!(Operand::readings("7").len(), 2);
        assert_eq!(
            Operand::readings("true"),
            [Operand::Text("true".into()), Operand::Truth(true)]
        );
        assert_eq!(Operand::readings("inf").len(), 1);
    }

    #[test]
    fn an_unknown_attribute_is_reported_with_its_column() {
        for (text, column, why) in [
            (
                "(eq,nmae,x)",
                5,
                "`VnfInstance` has no attribute `nmae`; it has id, vnfInstanceName,",
            ),
            (
                "(eq,id,1);(eq,instantiatedVnfInfo/vnfcs,x)",
                35,
                "`InstantiatedVnfInfo` has no attribute `vnfcs`",
            ),
            ("(eq,id/x,1)", 8, "`x` is invalid"),
            (
                "(eq,instantiatedVnfInfo,1)",
                5,
                "continue with `/` and one of flavourId",
            ),
            ("(eq,vimConnectionInfo,1)", 5, "this is a map"),
            ("(eq,vimConnectionInfo/v,1)", 23, "one of vimId, vimType"),
            ("(eq,metadata,1)", 5, "this is an object"),
            ("(eq,instantiatedVnfInfo/@key,1)", 25, "is not a map"),
            (
                "(eq,_links,1)",
                5,
                "this is a structure: continue with `/` and one of self,",
            ),
            (
                "(eq,_links/self,1)",
                12,
                "this is a link: continue with `/href`",
            ),
            (
                "(eq,_links/sefl/href,1)",
                12,
                "`VnfInstance` has no link `sefl`",
            ),
            ("(eq,_links/self/name,1)", 17, "a link has only `href`"),
            (
                "(eq,_links/self/href/x,1)",
                22,
                "the attribute has no members",
            ),
            (
                "(eq,instantiatedVnfInfo/scaleStatus/scaleLevel,one)",
                48,
                "`one` is not a number",
            ),
        ] {
            let error = Filter::parse(&VNF_INSTANCES, text).unwrap_err();
            assert!(
                error.column == column && error.why.contains(why),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_with_its_column() {
        for (text, column, why) in [
            ("(gt,startTime,yesterday)", 15, "not a time of RFC 3339"),
            ("(eq,isCancelPending,yes)", 21, "not a `true` or `false`"),
            (
                "(gt,isCancelPending,true)",
                5,
                "only be compared with eq, neq, in and nin",
            ),
        ] {
            let error = Filter::parse(&VNF_LCM_OP_OCCS, text).unwrap_err();
            assert!(
                error.column == column && error.why.contains(why),
                "{text}: {error}"
            );
        }
    }
}
