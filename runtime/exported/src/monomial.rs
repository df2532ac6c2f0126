//! Sizes that are a number times symbols, which can be multiplied, divided and compared exactly.

use std::collections::BTreeMap;

use crate::expression::{Expression, Function};

/// A product of a positive number and powers of symbols, such as `2*s77`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Monomial {
    factor: i64,
    powers: BTreeMap<String, u32>,
}

impl Monomial {
    pub(crate) fn one() -> Self {
        Self::number(1)
    }

    pub(crate) fn number(factor: i64) -> Self {
        Self { factor, powers: BTreeMap::new() }
    }

    pub(crate) fn symbol(name: &str) -> Self {
        Self { factor: 1, powers: BTreeMap::from([(name.to_owned(), 1)]) }
    }

    /// Returns the monomial that an expression is; `None` for sums, quotients and sizes below 1.
    pub(crate) fn of(expression: &Expression) -> Option<Self> {
        match expression {
            Expression::Number(number) => (*number > 0).then(|| Self::number(*number)),
            Expression::Symbol(name) => Some(Self::symbol(name)),
            Expression::Call(Function::Multiply, operands) => {
                operands.iter().try_fold(Self::one(), |product, operand| product.times(&Self::of(operand)?))
            }
            Expression::Call(Function::Power, operands) => match operands.as_slice() {
                [base, Expression::Number(power @ 1..=8)] => {
                    let base = Self::of(base)?;
                    (0..*power).try_fold(Self::one(), |product, _| product.times(&base))
                }
                _ => None,
            },
            Expression::Size(..) | Expression::Call(..) => None,
        }
    }

    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let mut product = self.clone();
        product.factor = self.factor.checked_mul(other.factor)?;
        for (name, power) in &other.powers {
            let own = product.powers.entry(name.clone()).or_insert(0);
            *own = own.checked_add(*power)?;
        }
        Some(product)
    }

    /// Returns the quotient; `None` if the division has a remainder for some sizes.
    pub(crate) fn divided_by(&self, other: &Self) -> Option<Self> {
        if other.factor == 0 || self.factor % other.factor != 0 {
            return None;
        }
        let mut quotient = self.clone();
        quotient.factor = self.factor / other.factor;
        for (name, power) in &other.powers {
            let own = quotient.powers.get_mut(name)?;
            *own = own.checked_sub(*power)?;
            if *own == 0 {
                quotient.powers.remove(name);
            }
        }
        Some(quotient)
    }

    pub(crate) fn is_number(&self) -> bool {
        self.powers.is_empty()
    }

    pub(crate) fn has(&self, symbol: &str) -> bool {
        self.powers.contains_key(symbol)
    }

    /// True if the size is known only when the program runs: the export names such symbols `u0`, `u1` and so on.
    pub(crate) fn is_unbacked(&self) -> bool {
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        self.powers.keys().any(|name| name.strip_prefix('u').is_some_and(is_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Monomial> {
        Monomial::of(&Expression::parse(text)?)
    }

    #[test]
    fn products_and_quotients_are_exact() {
        let product = of("6*s0*s1").unwrap();
        assert_eq!(product.divided_by(&of("2*s1").unwrap()), of("3*s0"));
        assert_eq!(product.divided_by(&of("4").unwrap()), None);
        assert_eq!(product.divided_by(&of("s2").unwrap()), None);
        assert_eq!(of("s0 + 1"), None);
        assert_eq!(of("s0**2").unwrap().divided_by(&of("s0").unwrap()), of("s0"));
    }
}
