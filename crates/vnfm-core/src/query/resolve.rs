//! Names become attributes of the resource, and values what those attributes hold.

use super::grammar::{Expression, Name, Placed};
use super::{Comparison, Hop, IllFormed, Leaf, Operand, Term};
use vnfm_types::shape::{Attribute, Many, Resource, Shape, Type};

/// The term that an expression is of a resource.
pub(super) fn term(resource: &Resource, written: &Expression) -> Result<Term, IllFormed> {
    let (hops, leaf) = way(resource.of(), &written.names)?;
    let comparison = written.comparison;
    if leaf == Leaf::Truth && !is_about_equality(comparison) {
        let column = written.names.last().map_or(1, |name| name.text.column);
        return Err(IllFormed::at(
            column,
            "true and false are compared by eq, neq, in and nin alone",
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

/// Where one is while names are followed.
enum Place {
    Within(&'static Type),
    Map(&'static Attribute),
    Free {
        root: bool,
    },
    /// `_links` of this type.
    Links(&'static Type),
    /// One of its links.
    Link,
    Value(Leaf),
}

fn way(of: &'static Type, names: &[Name]) -> Result<(Vec<Hop>, Leaf), IllFormed> {
    let (mut place, mut hops) = (Place::Within(of), Vec::new());
    for name in names {
        let column = name.text.column;
        place = match place {
            Place::Within(of) => member(of, name, &mut hops)?,
            Place::Map(_) | Place::Free { .. } if name.key => Place::Value(Leaf::Key),
            Place::Map(map) => {
                hops.push(Hop::Entry(name.text.text.clone()));
                inside(map)
            }
            Place::Free { .. } => {
                hops.push(Hop::Free(name.text.text.clone()));
                Place::Free { root: false }
            }
            Place::Links(of) => {
                hops.push(Hop::Free(name.text.text.clone()));
                link(of, name)?
            }
            Place::Link if !name.key && name.text.text == "href" => {
                hops.push(Hop::Free("href".to_owned()));
                Place::Value(Leaf::Text)
            }
            Place::Link => return Err(IllFormed::at(column, "a link has `href` alone")),
            Place::Value(Leaf::Hidden) => Place::Value(Leaf::Hidden),
            Place::Value(_) => {
                let why = format!(
                    "there is nothing within it: `{}` is too much",
                    name.text.text
                );
                return Err(IllFormed::at(column, why));
            }
        };
    }
    let column = names.last().map_or(1, |name| name.text.column);
    match place {
        Place::Value(leaf) => Ok((hops, leaf)),
        Place::Free { root: false } => Ok((hops, Leaf::Any)),
        Place::Free { root: true } => Err(IllFormed::at(
            column,
            "it is an object: go on with `/` and one of its members, or `/@key`",
        )),
        Place::Map(_) => Err(IllFormed::at(
            column,
            "it is a map: go on with `/` and a key, or `/@key`",
        )),
        Place::Links(of) => {
            let why = format!(
                "it is a structure: go on with `/` and one of {}",
                of.links().join(", ")
            );
            Err(IllFormed::at(column, why))
        }
        Place::Link => Err(IllFormed::at(column, "it is a link: go on with `/href`")),
        Place::Within(of) => {
            let why = format!(
                "it is a structure: go on with `/` and one of {}",
                of.names()
            );
            Err(IllFormed::at(column, why))
        }
    }
}

fn member(of: &'static Type, name: &Name, hops: &mut Vec<Hop>) -> Result<Place, IllFormed> {
    let column = name.text.column;
    if name.key {
        return Err(IllFormed::at(
            column,
            format!("`{}` is no map, so it has no `@key`", of.name),
        ));
    }
    let Some(attribute) = of.attribute(&name.text.text) else {
        let (text, has) = (&name.text.text, of.names());
        let why = format!("`{}` has no attribute `{text}`; it has {has}", of.name);
        return Err(IllFormed::at(column, why));
    };
    hops.push(Hop::Member(attribute.name));
    match attribute.many {
        Many::Map => return Ok(Place::Map(attribute)),
        Many::List => hops.push(Hop::Each),
        Many::One => {}
    }
    match attribute.shape {
        Shape::Links => Ok(Place::Links(of)),
        Shape::Key => {
            // It is shown as a member of each entry, and is what the map has it by.
            hops.truncate(hops.len().saturating_sub(2));
            Ok(Place::Value(Leaf::Key))
        }
        _ => Ok(inside(attribute)),
    }
}

/// One of the links of a type.
fn link(of: &'static Type, name: &Name) -> Result<Place, IllFormed> {
    if !name.key && of.links().contains(&name.text.text.as_str()) {
        return Ok(Place::Link);
    }
    let (text, has) = (&name.text.text, of.links().join(", "));
    let why = format!("`{}` has no link `{text}`; it has {has}", of.name);
    Err(IllFormed::at(name.text.column, why))
}

/// One value of an attribute.
fn inside(attribute: &'static Attribute) -> Place {
    match attribute.shape {
        Shape::Structure(of) => Place::Within(of),
        Shape::Free => Place::Free { root: true },
        Shape::Text | Shape::Links => Place::Value(Leaf::Text),
        Shape::Number => Place::Value(Leaf::Number),
        Shape::Truth => Place::Value(Leaf::Truth),
        Shape::Time => Place::Value(Leaf::Time),
        Shape::Hidden => Place::Value(Leaf::Hidden),
        Shape::Key => Place::Value(Leaf::Key),
    }
}

fn operand(value: &Placed, leaf: Leaf, as_text: bool) -> Result<Operand, IllFormed> {
    let wanted = |what: &str| {
        let why = format!(
            "`{}` is no {what}, and the attribute holds nothing else",
            value.text
        );
        IllFormed::at(value.column, why)
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

/// A number as JSON spells it.
pub(super) fn number(text: &str) -> Option<Operand> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(number) => match number.as_i64() {
            Some(whole) => Some(Operand::Whole(whole)),
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
    /// Everything that a text may stand for where free JSON is compared with it.
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
    fn names_become_the_way_to_a_value() {
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
    fn values_become_what_the_attribute_holds() {
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
    fn what_the_resource_does_not_have_is_told_with_its_column() {
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
            ("(eq,id/x,1)", 8, "`x` is too much"),
            (
                "(eq,instantiatedVnfInfo,1)",
                5,
                "go on with `/` and one of flavourId",
            ),
            ("(eq,vimConnectionInfo,1)", 5, "it is a map"),
            ("(eq,vimConnectionInfo/v,1)", 23, "one of vimId, vimType"),
            ("(eq,metadata,1)", 5, "it is an object"),
            ("(eq,instantiatedVnfInfo/@key,1)", 25, "is no map"),
            (
                "(eq,_links,1)",
                5,
                "it is a structure: go on with `/` and one of self,",
            ),
            ("(eq,_links/self,1)", 12, "it is a link: go on with `/href`"),
            (
                "(eq,_links/sefl/href,1)",
                12,
                "`VnfInstance` has no link `sefl`",
            ),
            ("(eq,_links/self/name,1)", 17, "a link has `href` alone"),
            (
                "(eq,_links/self/href/x,1)",
                22,
                "there is nothing within it",
            ),
            (
                "(eq,instantiatedVnfInfo/scaleStatus/scaleLevel,one)",
                48,
                "`one` is no number",
            ),
        ] {
            let told = Filter::parse(&VNF_INSTANCES, text).unwrap_err();
            assert!(
                told.column == column && told.why.contains(why),
                "{text}: {told}"
            );
        }
        for (text, column, why) in [
            ("(gt,startTime,yesterday)", 15, "no time of RFC 3339"),
            ("(eq,isCancelPending,yes)", 21, "no `true` or `false`"),
            ("(gt,isCancelPending,true)", 5, "eq, neq, in and nin alone"),
        ] {
            let told = Filter::parse(&VNF_LCM_OP_OCCS, text).unwrap_err();
            assert!(
                told.column == column && told.why.contains(why),
                "{text}: {told}"
            );
        }
    }
}
