//! Symbolic sizes and guards: expressions of sympy (`2*s77`, `Mul(Integer(2), Symbol('s77'))`) and of Python
//! (`L['x'].size()[0] % 2 == 0`), with an evaluator that refuses overflow and division by zero.

use crate::tree::Step;

/// Deepest nesting of an expression, which bounds the parser's stack.
const DEEPEST: usize = 64;

/// Largest number of tokens, which bounds the depth of a chain of sums.
const MOST_TOKENS: usize = 1000;

/// Largest number of parts of an expression that is copied. It bounds the size of nested chains of comparisons.
const MOST_COPIED: usize = 32;

/// A parsed expression. Truth values are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Number(i64),
    Symbol(String),
    /// Size of a dimension of an input, by the path of the input in the arguments of `forward`.
    Size(Vec<Step>, usize),
    Call(Function, Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Add,
    Subtract,
    Multiply,
    FloorDivide,
    Modulo,
    Power,
    Maximum,
    Minimum,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    Not,
}

impl Expression {
    /// Parses an expression; `None` if it has a part that this runtime does not know.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let tokens = tokens(text).filter(|tokens| tokens.len() <= MOST_TOKENS)?;
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let parsed = parser.any()?;
        parser.tokens.is_empty().then_some(parsed)
    }

    /// Returns the dimensions that the expression is about, by the paths of the inputs.
    pub(crate) fn sizes(&self) -> Vec<(&[Step], usize)> {
        match self {
            Self::Size(path, axis) => vec![(path, *axis)],
            Self::Call(_, operands) => operands.iter().flat_map(Self::sizes).collect(),
            Self::Number(_) | Self::Symbol(_) => Vec::new(),
        }
    }

    /// Returns the number of numbers, symbols, sizes and functions in the expression.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Call(_, operands) => 1 + operands.iter().map(Self::parts).sum::<usize>(),
            Self::Number(_) | Self::Symbol(_) | Self::Size(..) => 1,
        }
    }

    /// Returns true if the value depends on the symbol.
    pub(crate) fn has(&self, symbol: &str) -> bool {
        match self {
            Self::Symbol(name) => name == symbol,
            Self::Call(_, operands) => operands.iter().any(|operand| operand.has(symbol)),
            Self::Number(_) | Self::Size(..) => false,
        }
    }

    /// Computes the value; `None` if a symbol is unknown, on overflow and on division by zero.
    pub(crate) fn evaluate(&self, lookup: &dyn Fn(&Self) -> Option<i64>) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Symbol(_) | Self::Size(..) => lookup(self),
            Self::Call(function, operands) => {
                let mut values = operands.iter().map(|operand| operand.evaluate(lookup));
                let first = values.next()??;
                if *function == Function::Not {
                    return Some((first == 0).into());
                }
                values.try_fold(first, |left, right| function.apply(left, right?))
            }
        }
    }
}

impl Function {
    fn apply(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            // Python rounds quotients down.
            Self::FloorDivide => {
                let quotient = left.checked_div_euclid(right)?;
                Some(if right < 0 && left.checked_rem_euclid(right)? != 0 {
                    quotient.checked_sub(1)?
                } else {
                    quotient
                })
            }
            Self::Modulo => {
                let rest = left.checked_rem(right)?;
                Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
            }
            Self::Power => left.checked_pow(u32::try_from(right).ok()?),
            Self::Maximum => Some(left.max(right)),
            Self::Minimum => Some(left.min(right)),
            Self::Equal => Some((left == right).into()),
            Self::NotEqual => Some((left != right).into()),
            Self::Less => Some((left < right).into()),
            Self::LessOrEqual => Some((left <= right).into()),
            Self::And => Some((left != 0 && right != 0).into()),
            Self::Or => Some((left != 0 || right != 0).into()),
            Self::Not => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Number(i64),
    Word(String),
    Text(String),
    Sign(&'static str),
}

/// Signs, those of two characters first.
const SIGNS: [&str; 21] =
    ["//", "**", "==", "!=", "<=", ">=", "(", ")", "[", "]", ",", "+", "-", "*", "/", "%", "<", ">", "=", ".", "~"];

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            found.push(Token::Number(rest[..length].parse().ok()?));
            length + zero_fraction(&rest[length..])?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token::Word(rest[..length].to_owned()));
            length
        } else if first == '\'' || first == '"' {
            let inner = &rest[1..];
            let length = inner.find(first)?;
            found.push(Token::Text(inner[..length].to_owned()));
            length + 2
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
            found.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Some(found)
}

/// Returns the length of the fraction after a whole number, such as that of `2.0`; 0 without one, and `None` for a number
/// that is not whole.
fn zero_fraction(rest: &str) -> Option<usize> {
    let Some(digits) = rest.strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) else {
        return Some(0);
    };
    let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..length].bytes().all(|digit| digit == b'0').then_some(length + 1)
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: usize,
}

fn call(function: Function, left: Expression, right: Expression) -> Expression {
    Expression::Call(function, vec![left, right])
}

impl Parser<'_> {
    fn sign(&mut self, sign: &str) -> Option<()> {
        let is_it = matches!(self.tokens.first(), Some(Token::Sign(found)) if *found == sign);
        is_it.then(|| self.tokens = &self.tokens[1..])
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let is_it = matches!(self.tokens.first(), Some(Token::Word(found)) if found == word);
        is_it.then(|| self.tokens = &self.tokens[1..])
    }

    fn any(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut left = self.all()?;
        while self.word("or").is_some() {
            left = call(Function::Or, left, self.all()?);
        }
        self.depth -= 1;
        Some(left)
    }

    fn all(&mut self) -> Option<Expression> {
        let mut left = self.negation()?;
        while self.word("and").is_some() {
            left = call(Function::And, left, self.negation()?);
        }
        Some(left)
    }

    fn negation(&mut self) -> Option<Expression> {
        let mut negated = false;
        while self.word("not").is_some() {
            negated = !negated;
        }
        let inner = self.comparison()?;
        Some(if negated { Expression::Call(Function::Not, vec![inner]) } else { inner })
    }

    /// Parses comparisons, which Python chains: `2 <= x <= 8`.
    fn comparison(&mut self) -> Option<Expression> {
        let mut left = self.sum()?;
        let mut chain: Option<Expression> = None;
        while let Some((function, swapped)) = self.comparison_sign() {
            // The parts in the middle of a chain are copied, and nested chains would double them again and again.
            if chain.is_some() && left.parts() > MOST_COPIED {
                return None;
            }
            let right = self.sum()?;
            let (low, high) = if swapped { (right.clone(), left) } else { (left, right.clone()) };
            let link = call(function, low, high);
            chain = Some(match chain {
                Some(chain) => call(Function::And, chain, link),
                None => link,
            });
            left = right;
        }
        Some(chain.unwrap_or(left))
    }

    /// Returns a comparison, and true if its operands are swapped.
    fn comparison_sign(&mut self) -> Option<(Function, bool)> {
        let known = [
            ("==", Function::Equal, false),
            ("!=", Function::NotEqual, false),
            ("<=", Function::LessOrEqual, false),
            (">=", Function::LessOrEqual, true),
            ("<", Function::Less, false),
            (">", Function::Less, true),
        ];
        known.into_iter().find_map(|(sign, function, swapped)| self.sign(sign).map(|()| (function, swapped)))
    }

    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            left = if self.sign("+").is_some() {
                call(Function::Add, left, self.product()?)
            } else if self.sign("-").is_some() {
                call(Function::Subtract, left, self.product()?)
            } else {
                return Some(left);
            };
        }
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.signed()?;
        loop {
            left = if self.sign("*").is_some() {
                call(Function::Multiply, left, self.signed()?)
            } else if self.sign("//").is_some() {
                call(Function::FloorDivide, left, self.signed()?)
            } else if self.sign("%").is_some() {
                call(Function::Modulo, left, self.signed()?)
            } else {
                return Some(left);
            };
        }
    }

    fn signed(&mut self) -> Option<Expression> {
        let mut negative = false;
        while self.sign("-").is_some() {
            negative = !negative;
        }
        let value = self.power()?;
        Some(if negative { call(Function::Multiply, Expression::Number(-1), value) } else { value })
    }

    fn power(&mut self) -> Option<Expression> {
        let base = self.atom()?;
        match self.sign("**") {
            Some(()) => Some(call(Function::Power, base, self.atom()?)),
            None => Some(base),
        }
    }

    fn atom(&mut self) -> Option<Expression> {
        if self.sign("(").is_some() {
            let inner = self.any()?;
            self.sign(")")?;
            return Some(inner);
        }
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        match first {
            Token::Number(number) => Some(Expression::Number(*number)),
            Token::Word(word) if word == "L" => self.size(),
            Token::Word(word) if word == "True" => Some(Expression::Number(1)),
            Token::Word(word) if word == "False" => Some(Expression::Number(0)),
            Token::Word(word) if word == "math" || word == "torch" => {
                self.sign(".")?;
                let (Token::Word(name), rest) = self.tokens.split_first()? else { return None };
                self.tokens = rest;
                self.sign("(")?;
                self.function(name)
            }
            Token::Word(word) if self.sign("(").is_some() => self.function(word),
            Token::Word(word) => Some(Expression::Symbol(word.clone())),
            Token::Text(_) | Token::Sign(_) => None,
        }
    }

    /// Parses the rest of `L['x'][0].size()[1]`.
    fn size(&mut self) -> Option<Expression> {
        let mut path = Vec::new();
        while self.sign("[").is_some() {
            let (first, rest) = self.tokens.split_first()?;
            self.tokens = rest;
            path.push(match first {
                Token::Text(key) => Step::Key(key.clone()),
                Token::Number(index) => Step::Position(usize::try_from(*index).ok()?),
                Token::Word(_) | Token::Sign(_) => return None,
            });
            self.sign("]")?;
        }
        self.sign(".")?;
        self.word("size")?;
        self.sign("(")?;
        self.sign(")")?;
        self.sign("[")?;
        let (Token::Number(axis), rest) = self.tokens.split_first()? else { return None };
        self.tokens = rest;
        self.sign("]")?;
        Some(Expression::Size(path, usize::try_from(*axis).ok()?))
    }

    /// Parses the rest of a call, after its name and the parenthesis.
    fn function(&mut self, name: &str) -> Option<Expression> {
        if name == "Symbol" {
            return self.symbol();
        }
        let mut operands = Vec::new();
        while self.sign(")").is_none() {
            operands.push(self.any()?);
            if self.sign(",").is_none() {
                self.sign(")")?;
                break;
            }
        }
        of_call(name, operands)
    }

    /// Parses the rest of `Symbol('s77', positive=True, integer=True)`.
    fn symbol(&mut self) -> Option<Expression> {
        let (Token::Text(name), rest) = self.tokens.split_first()? else { return None };
        self.tokens = rest;
        while self.sign(",").is_some() {
            let (Token::Word(_), rest) = self.tokens.split_first()? else { return None };
            self.tokens = rest;
            self.sign("=")?;
            let (Token::Word(_), rest) = self.tokens.split_first()? else { return None };
            self.tokens = rest;
        }
        self.sign(")")?;
        Some(Expression::Symbol(name.clone()))
    }
}

fn of_call(name: &str, operands: Vec<Expression>) -> Option<Expression> {
    let function = match (name, operands.as_slice()) {
        // Every number here is whole, also as a float, so conversions and roundings change nothing.
        (
            "Integer" | "Identity" | "sym_float" | "sym_int" | "trunc" | "floor" | "ceil" | "ToFloat" | "TruncToInt"
            | "FloorToInt" | "CeilToInt",
            [only],
        ) => return Some(only.clone()),
        ("Add", [_, ..]) => Function::Add,
        ("Mul", [_, ..]) => Function::Multiply,
        ("Max" | "max", [_, ..]) => Function::Maximum,
        ("Min" | "min", [_, ..]) => Function::Minimum,
        ("And", [_, ..]) => Function::And,
        ("Or", [_, ..]) => Function::Or,
        ("Not", [_]) => Function::Not,
        ("FloorDiv" | "CleanDiv", [_, _]) => Function::FloorDivide,
        ("Mod" | "PythonMod", [_, _]) => Function::Modulo,
        ("Pow" | "PowByNatural", [_, _]) => Function::Power,
        ("Eq" | "Equality", [_, _]) => Function::Equal,
        ("Ne" | "Unequality", [_, _]) => Function::NotEqual,
        ("Lt" | "StrictLessThan", [_, _]) => Function::Less,
        ("Le" | "LessThan", [_, _]) => Function::LessOrEqual,
        ("Gt" | "StrictGreaterThan", [left, right]) => return Some(call(Function::Less, right.clone(), left.clone())),
        ("Ge" | "GreaterThan", [left, right]) => {
            return Some(call(Function::LessOrEqual, right.clone(), left.clone()));
        }
        _ => return None,
    };
    Some(Expression::Call(function, operands))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        let known = |expression: &Expression| match expression {
            Expression::Symbol(name) => [("s0", 7), ("s77", 3)].iter().find(|(known, _)| known == name).map(|at| at.1),
            Expression::Size(path, axis) => (*path == [Step::Key("x".to_owned())]).then_some([2, 9][*axis]),
            Expression::Number(_) | Expression::Call(..) => None,
        };
        Expression::parse(text)?.evaluate(&known)
    }

    #[test]
    fn expressions_of_sympy_and_python_have_their_values() {
        for (text, expected) in [
            ("s77", 3),
            ("2*s77 + 1", 7),
            ("s77 - s0", -4),
            ("-s77//2", -2),
            ("FloorDiv(s0, 2)", 3),
            ("Mod(s0, 2)", 1),
            ("(s0 + 1)*(s77 - 1)", 16),
            ("s77**2", 9),
            ("Mul(Integer(4), Symbol('s77', positive=True, integer=True))", 12),
            ("Add(Symbol('s0', integer=True), Integer(-1))", 6),
            ("Max(1, s0)", 7),
            ("L['x'].size()[1] % 2 == 1", 1),
            ("2 <= L['x'].size()[0] and L['x'].size()[0] <= 1", 0),
            ("not s0 > 8", 1),
            ("2 <= s77 <= 8", 1),
            ("Ne(Mod(s0, 7), 0)", 0),
            ("(2*L['x'].size()[1]) == math.trunc(2.0*torch.sym_float(L['x'].size()[1]))", 1),
            ("TruncToInt(2.0*ToFloat(s0)) - 14", 0),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn unknown_parts_overflow_and_division_by_zero_have_no_value() {
        for text in ["zuf0", "s0 // 0", "s0 % 0", "sin(s0)", "9223372036854775807 + s0", "s0 ** 99", "(", "L['x']", ""]
        {
            assert_eq!(value(text), None, "{text}");
        }
        for text in ["0.5*s0", "1.", "math.sqrt(s0)", "math(s0)", "torch.s0", "math."] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"(".repeat(100_000)), None);
    }

    #[test]
    fn nested_chains_of_comparisons_do_not_grow_without_bound() {
        let nested = |depth: usize| format!("{}1{}", "(1 < ".repeat(depth), " < 1)".repeat(depth));
        assert!(Expression::parse(&nested(2)).is_some_and(|parsed| parsed.parts() < 50));
        assert_eq!(Expression::parse(&nested(60)), None);
        assert_eq!(value("2 <= s0 + 1 <= 9"), Some(1));
        assert_eq!(value("2 <= s0 // 2 * 2 + 1 <= s0 < 3"), Some(0));
    }

    proptest::proptest! {
        #[test]
        fn quotients_and_rests_are_pythons(left in -50_i64..50, right in -9_i64..9) {
            let (quotient, rest) = (Function::FloorDivide.apply(left, right), Function::Modulo.apply(left, right));
            match right {
                0 => proptest::prop_assert_eq!((quotient, rest), (None, None)),
                _ => {
                    let floor = (left as f64 / right as f64).floor() as i64;
                    proptest::prop_assert_eq!((quotient, rest), (Some(floor), Some(left - floor * right)));
                }
            }
        }
    }
}
