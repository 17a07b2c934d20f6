//! The syntax of a filter, independent of the resource (SOL013 5.2.2): `(op,name/name,value,…);(…)`.
//!
//! A value that contains `,`, `)` or `'` is quoted with apostrophes, and an apostrophe in it is doubled. In names `~0` is
//! `~`, `~1` is `/`, `~a` is `,`, and `~b` is `@`; `@key` stands for the keys of a map.

use super::{Comparison, QuerySyntaxError};
use std::iter::Peekable;
use std::str::Chars;

/// Maximum numbers of expressions per filter, names per path, and values per expression.
const EXPRESSIONS: usize = 50;
const NAMES: usize = 12;
const VALUES: usize = 500;

/// One comparison of a filter, as written.
#[derive(Debug, PartialEq)]
pub(super) struct Expression {
    pub(super) comparison: Comparison,
    pub(super) names: Vec<Name>,
    pub(super) values: Vec<Spanned>,
}

/// One name of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Name {
    pub(super) text: Spanned,
    /// True for `@key`, which stands for a map's keys.
    pub(super) key: bool,
}

/// A text with the column where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    pub(super) text: String,
    pub(super) column: usize,
}

/// The operators, and whether each takes several values.
const OPERATORS: &[(&str, Comparison, bool)] = &[
    ("eq", Comparison::Eq, false),
    ("neq", Comparison::Neq, false),
    ("in", Comparison::In, true),
    ("nin", Comparison::Nin, true),
    ("gt", Comparison::Gt, false),
    ("gte", Comparison::Gte, false),
    ("lt", Comparison::Lt, false),
    ("lte", Comparison::Lte, false),
    ("cont", Comparison::Cont, true),
    ("ncont", Comparison::Ncont, true),
];

/// Parses a filter into its comparisons.
pub(super) fn parse(text: &str) -> Result<Vec<Expression>, QuerySyntaxError> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        column: 1,
    };
    let mut all = vec![reader.expression()?];
    while let Some(next) = reader.next() {
        if next != ';' {
            return Err(QuerySyntaxError::at(
                reader.column - 1,
                format!("expected `;` between two expressions, found `{next}`"),
            ));
        }
        if all.len() == EXPRESSIONS {
            return Err(reader.here(format!("more than {EXPRESSIONS} expressions")));
        }
        all.push(reader.expression()?);
    }
    Ok(all)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    /// Column of the next character.
    column: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.column += usize::from(next.is_some());
        next
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn here(&self, why: impl Into<String>) -> QuerySyntaxError {
        QuerySyntaxError::at(self.column, why)
    }

    fn expression(&mut self) -> Result<Expression, QuerySyntaxError> {
        if self.peek() != Some('(') {
            let found = self.found();
            return Err(self.here(format!(
                "expected `(` at the start of an expression, found {found}"
            )));
        }
        self.next();
        let (comparison, several) = self.operator()?;
        let names = self.names()?;
        let (mut values, most) = (Vec::new(), if several { VALUES } else { 1 });
        while self.peek() == Some(',') {
            self.next();
            if values.len() == most {
                return Err(self.here(format!("this operator takes no more than {most} value(s)")));
            }
            values.push(self.value()?);
        }
        if values.is_empty() {
            return Err(self.here("expected a value: `(op,attribute,value)`"));
        }
        if self.peek() != Some(')') {
            let found = self.found();
            return Err(self.here(format!(
                "expected `)` at the end of an expression, found {found}"
            )));
        }
        self.next();
        Ok(Expression {
            comparison,
            names,
            values,
        })
    }

    fn found(&mut self) -> String {
        self.peek()
            .map_or_else(|| "the end".to_owned(), |found| format!("`{found}`"))
    }

    fn operator(&mut self) -> Result<(Comparison, bool), QuerySyntaxError> {
        let column = self.column;
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(char::is_ascii_alphabetic) {
            word.push(letter);
            self.next();
        }
        let Some((_, comparison, several)) = OPERATORS.iter().find(|(name, ..)| *name == word)
        else {
            let names: Vec<_> = OPERATORS.iter().map(|(name, ..)| *name).collect();
            let why = format!(
                "unknown operator `{word}`; known operators: {}",
                names.join(", ")
            );
            return Err(QuerySyntaxError::at(column, why));
        };
        if self.next() != Some(',') {
            return Err(QuerySyntaxError::at(
                self.column,
                "expected `,` and an attribute",
            ));
        }
        Ok((*comparison, *several))
    }

    fn names(&mut self) -> Result<Vec<Name>, QuerySyntaxError> {
        let mut names = vec![self.name()?];
        while self.peek() == Some('/') {
            self.next();
            if names.len() == NAMES {
                return Err(self.here(format!("a path has no more than {NAMES} names")));
            }
            names.push(self.name()?);
        }
        Ok(names)
    }

    fn name(&mut self) -> Result<Name, QuerySyntaxError> {
        let column = self.column;
        let (mut text, mut key) = (String::new(), false);
        while let Some(next) = self.peek().filter(|next| !matches!(next, ',' | '/' | ')')) {
            self.next();
            match next {
                '~' => text.push(self.escaped()?),
                '@' if text.is_empty() && !key => key = true,
                '@' => {
                    return Err(QuerySyntaxError::at(
                        self.column - 1,
                        "`@` in a name is written `~b`",
                    ));
                }
                plain => text.push(plain),
            }
        }
        if key && text != "key" {
            return Err(QuerySyntaxError::at(
                column,
                "only `@key` begins with `@`; otherwise write `~b`",
            ));
        }
        if text.is_empty() {
            return Err(QuerySyntaxError::at(
                column,
                "expected the name of an attribute",
            ));
        }
        Ok(Name {
            text: Spanned { text, column },
            key,
        })
    }

    fn escaped(&mut self) -> Result<char, QuerySyntaxError> {
        let column = self.column - 1;
        match self.next() {
            Some('0') => Ok('~'),
            Some('1') => Ok('/'),
            Some('a') => Ok(','),
            Some('b') => Ok('@'),
            _ => Err(QuerySyntaxError::at(
                column,
                "`~` in a name is written `~0`",
            )),
        }
    }

    fn value(&mut self) -> Result<Spanned, QuerySyntaxError> {
        let column = self.column;
        if self.peek() == Some('\'') {
            self.next();
            return self.quoted(column);
        }
        let mut text = String::new();
        while let Some(next) = self.peek().filter(|next| !matches!(next, ',' | ')')) {
            if next == '\'' {
                let why = "a value with an apostrophe must be quoted with apostrophes, and the apostrophe doubled";
                return Err(self.here(why));
            }
            text.push(next);
            self.next();
        }
        if text.is_empty() {
            return Err(QuerySyntaxError::at(
                column,
                "expected a value; an empty one is `''`",
            ));
        }
        Ok(Spanned { text, column })
    }

    /// The rest of a quoted value that began at `column`.
    fn quoted(&mut self, column: usize) -> Result<Spanned, QuerySyntaxError> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') if self.peek() == Some('\'') => {
                    self.next();
                    text.push('\'');
                }
                Some('\'') => return Ok(Spanned { text, column }),
                Some(other) => text.push(other),
                None => {
                    return Err(QuerySyntaxError::at(
                        column,
                        "this apostrophe is not closed",
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, Expression, parse};

    fn written(text: &str) -> (Comparison, Vec<String>, Vec<String>) {
        let mut all = parse(text).unwrap();
        assert_eq!(all.len(), 1, "{text}");
        let Expression {
            comparison,
            names,
            values,
        } = all.remove(0);
        let name =
            |name: super::Name| (if name.key { "@" } else { "" }).to_owned() + &name.text.text;
        let values = values.into_iter().map(|value| value.text).collect();
        (comparison, names.into_iter().map(name).collect(), values)
    }

    #[test]
    fn well_formed_filters_are_parsed() {
        for (text, names, values) in [
            ("(eq,id,1)", vec!["id"], vec!["1"]),
            ("(eq,a/b/c,d e)", vec!["a", "b", "c"], vec!["d e"]),
            ("(in,id,1,2,'3')", vec!["id"], vec!["1", "2", "3"]),
            (
                "(eq,id,'it''s, (so) to say')",
                vec!["id"],
                vec!["it's, (so) to say"],
            ),
            ("(eq,id,'')", vec!["id"], vec![""]),
            ("(eq,id,'''')", vec!["id"], vec!["'"]),
            ("(eq,id,(;ü=/)", vec!["id"], vec!["(;ü=/"]),
            ("(eq,a~0~1~a~bz/@key,k)", vec!["a~/,@z", "@key"], vec!["k"]),
            ("(eq,~bkey,k)", vec!["@key"], vec!["k"]),
        ] {
            let (_, is_names, is_values) = written(text);
            assert_eq!(
                (is_names, is_values),
                (
                    names.into_iter().map(Into::into).collect(),
                    values.into_iter().map(Into::into).collect()
                ),
                "{text}"
            );
        }
        assert_eq!(parse("(eq,a,1);(neq,b,2);(ncont,c,3,4)").unwrap().len(), 3);
    }

    #[test]
    fn syntax_errors_are_reported_with_their_column() {
        for (text, column, why) in [
            ("", 1, "expected `(`"),
            (
                "eq,a,1",
                1,
                "expected `(` at the start of an expression, found `e`",
            ),
            (
                "(is,a,1)",
                2,
                "unknown operator `is`; known operators: eq, neq,",
            ),
            ("(,a,1)", 2, "unknown operator ``"),
            ("(eq)", 5, "expected `,` and an attribute"),
            ("(eq,,1)", 5, "the name of an attribute"),
            ("(eq,a//b,1)", 7, "the name of an attribute"),
            ("(eq,/a,1)", 5, "the name of an attribute"),
            ("(eq,a)", 6, "expected a value"),
            ("(eq,a,)", 7, "an empty one is `''`"),
            ("(eq,a,1,2)", 9, "no more than 1 value"),
            (
                "(eq,a,1",
                8,
                "expected `)` at the end of an expression, found the end",
            ),
            ("(eq,a,'1", 7, "this apostrophe is not closed"),
            ("(eq,a,O'Neill)", 8, "must be quoted"),
            ("(eq,a,'1'2)", 10, "expected `)`"),
            ("(eq,a,1)(eq,b,2)", 9, "expected `;` between"),
            (
                "(eq,a,1);",
                10,
                "expected `(` at the start of an expression, found the end",
            ),
            ("(eq,a,1) ", 9, "expected `;`"),
            ("(eq,a~2,1)", 6, "`~0`"),
            ("(eq,a@,1)", 6, "`~b`"),
            ("(eq,@x,1)", 5, "only `@key`"),
            ("(eq,ü,1,2)", 9, "no more than 1 value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.column == column && error.why.contains(why),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn the_size_of_a_filter_is_limited() {
        let many = |count: usize, one: &str, between: &str| vec![one; count].join(between);
        assert!(parse(&many(50, "(eq,a,1)", ";")).is_ok());
        assert!(parse(&many(51, "(eq,a,1)", ";")).is_err());
        assert!(parse(&format!("(in,a,{})", many(500, "v", ","))).is_ok());
        assert!(parse(&format!("(in,a,{})", many(501, "v", ","))).is_err());
        assert!(parse(&format!("(eq,{},1)", many(12, "a", "/"))).is_ok());
        assert!(parse(&format!("(eq,{},1)", many(13, "a", "/"))).is_err());
    }

    /// A filter with `expressions`, correctly escaped.
    fn unparsed(expressions: &[(Comparison, Vec<String>, Vec<String>)]) -> String {
        let one = |(comparison, names, values): &(Comparison, Vec<String>, Vec<String>)| {
            let (word, ..) = super::OPERATORS
                .iter()
                .find(|(_, is, _)| is == comparison)
                .unwrap();
            let escape = |name: &String| {
                let name = name
                    .replace('~', "~0")
                    .replace('/', "~1")
                    .replace(',', "~a");
                name.replace('@', "~b").replace(')', "p")
            };
            let quote = |value: &String| format!("'{}'", value.replace('\'', "''"));
            let names: Vec<_> = names.iter().map(escape).collect();
            let values: Vec<_> = values.iter().map(quote).collect();
            format!("({word},{},{})", names.join("/"), values.join(","))
        };
        expressions.iter().map(one).collect::<Vec<_>>().join(";")
    }

    /// A reproducible generator of pseudo-random numbers.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % end
        }
        fn text(&mut self, least: usize) -> String {
            const LETTERS: [char; 16] = [
                'a', 'k', '@', '~', '/', ',', '(', ';', '\'', ' ', '"', '\\', 'é', '0', '\u{0}',
                '🦀',
            ];
            (0..least + self.below(6))
                .map(|_| LETTERS[self.below(16)])
                .collect()
        }
    }

    #[test]
    fn any_correctly_escaped_filter_round_trips() {
        let mut dice = Dice(7);
        for _ in 0..2_000 {
            let expressions: Vec<_> = (0..=dice.below(3))
                .map(|_| {
                    let (_, comparison, several) = super::OPERATORS[dice.below(10)];
                    let names = (0..=dice.below(3))
                        .map(|_| dice.text(1))
                        .collect::<Vec<_>>();
                    let count = if several { dice.below(4) } else { 0 };
                    (
                        comparison,
                        names,
                        (0..=count).map(|_| dice.text(0)).collect::<Vec<_>>(),
                    )
                })
                .collect();
            let text = unparsed(&expressions);
            let read = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.len(), expressions.len());
            for (read, (comparison, names, values)) in read.into_iter().zip(expressions) {
                assert_eq!(read.comparison, comparison, "{text}");
                let is: Vec<_> = read.names.into_iter().map(|name| name.text.text).collect();
                assert_eq!(is, names, "{text}");
                let is: Vec<_> = read.values.into_iter().map(|value| value.text).collect();
                assert_eq!(is, values, "{text}");
            }
        }
    }

    #[test]
    fn no_text_causes_a_panic_and_each_error_has_a_valid_column() {
        let mut dice = Dice(11);
        let pieces = [
            "(", ")", "eq", "in", ",", ";", "/", "'", "''", "~", "~0", "@key", "a", "é", "\u{0}",
        ];
        for _ in 0..50_000 {
            let text: String = (0..dice.below(14))
                .map(|_| pieces[dice.below(pieces.len())])
                .collect();
            if let Err(error) = parse(&text) {
                assert!(
                    (1..=text.chars().count() + 1).contains(&error.column),
                    "{text}: {error}"
                );
            }
        }
    }
}
