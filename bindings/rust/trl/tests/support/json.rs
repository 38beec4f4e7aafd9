//! A small reader of JSON, so that the crate needs no other one.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

#[allow(dead_code)]
impl Json {
    pub fn read(text: &str) -> Json {
        value(&mut text.chars().peekable())
    }

    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => panic!("{other:?} is not a text"),
        }
    }

    pub fn number(&self) -> f64 {
        match self {
            Json::Number(number) => *number,
            other => panic!("{other:?} is not a number"),
        }
    }

    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(list) => list,
            other => panic!("{other:?} is not a list"),
        }
    }

    pub fn object(&self) -> &BTreeMap<String, Json> {
        match self {
            Json::Object(object) => object,
            other => panic!("{other:?} is not an object"),
        }
    }

    /// Token ids.
    pub fn ids(&self) -> Vec<i32> {
        self.list().iter().map(|id| id.number() as i32).collect()
    }
}

impl std::ops::Index<&str> for Json {
    type Output = Json;
    fn index(&self, key: &str) -> &Json {
        &self.object()[key]
    }
}

/// A text as JSON.
#[allow(dead_code)]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

fn skip(text: &mut Peekable<Chars<'_>>) {
    while text.next_if(|c| c.is_ascii_whitespace()).is_some() {}
}

/// The items between two brackets.
fn items(text: &mut Peekable<Chars<'_>>, end: char, mut item: impl FnMut(&mut Peekable<Chars<'_>>)) {
    text.next();
    loop {
        skip(text);
        if text.next_if_eq(&end).is_some() {
            return;
        }
        item(text);
        skip(text);
        text.next_if_eq(&',');
    }
}

fn value(text: &mut Peekable<Chars<'_>>) -> Json {
    skip(text);
    match text.peek().expect("JSON") {
        '"' => Json::Text(string(text)),
        '[' => {
            let mut list = Vec::new();
            items(text, ']', |text| list.push(value(text)));
            Json::List(list)
        }
        '{' => {
            let mut object = BTreeMap::new();
            items(text, '}', |text| {
                let key = string(text);
                skip(text);
                assert_eq!(text.next(), Some(':'));
                object.insert(key, value(text));
            });
            Json::Object(object)
        }
        _ => {
            let mut word = String::new();
            while let Some(c) = text.next_if(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c)) {
                word.push(c);
            }
            match word.as_str() {
                "null" => Json::Null,
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                number => Json::Number(number.parse().expect("a number")),
            }
        }
    }
}

fn string(text: &mut Peekable<Chars<'_>>) -> String {
    text.next();
    let mut out = String::new();
    loop {
        match text.next().expect("the end of a text") {
            '"' => return out,
            '\\' => match text.next().expect("an escape") {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'u' => {
                    let first = unit(text);
                    let mut units = vec![first];
                    if (0xd800..0xdc00).contains(&first) {
                        text.nth(1);
                        units.push(unit(text));
                    }
                    out += &String::from_utf16(&units).expect("UTF-16");
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

fn unit(text: &mut Peekable<Chars<'_>>) -> u16 {
    let digits: String = text.take(4).collect();
    u16::from_str_radix(&digits, 16).expect("four digits")
}
