//! Reasons why a model cannot have CUDA graphs, as far as its code shows them. A graph repeats the kernels of one run, so
//! everything else that a run does happens only once, when the graph is captured.

use super::{Argument, ArgumentKind};

/// Operators whose result the host needs: the run waits for the device, which a capture does not allow.
const WAITING: [&str; 18] = [
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::nonzero_numpy",
    "aten::argwhere",
    "aten::masked_select",
    "aten::is_nonzero",
    "aten::equal",
    "aten::allclose",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::_unique",
    "aten::_unique2",
    "aten::bincount",
    "aten::tolist",
    "aten::cpu",
    "aten::_sync",
    "torchvision::nms",
];

/// Operators that draw random numbers. A replay would draw others than a run, so no comparison could show that the
/// graph is right.
const RANDOM: [&str; 20] = [
    "aten::rand",
    "aten::rand_like",
    "aten::randn",
    "aten::randn_like",
    "aten::randint",
    "aten::randint_like",
    "aten::randperm",
    "aten::normal",
    "aten::normal_",
    "aten::uniform",
    "aten::uniform_",
    "aten::random",
    "aten::random_",
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::multinomial",
    "aten::poisson",
    "aten::native_dropout",
    "aten::rrelu",
    "aten::rrelu_with_noise",
];

/// Operators that run a part of the model on another thread, whose stream is not captured.
const FORKING: [&str; 2] = ["prim::fork", "aten::wait"];

/// The properties of a model that decide if it can have graphs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelTraits<'a> {
    /// Qualified names of the operators that a run may call.
    pub(crate) operators: &'a [String],
    pub(crate) arguments: &'a [Argument],
    /// The evidence that runs change the model itself; `None` if they do not.
    pub(crate) writes: Option<&'a str>,
}

/// Returns the reason why a model cannot have graphs, in words that follow "because"; `None` if its code shows none.
pub(crate) fn obstacle(model: &ModelTraits<'_>) -> Option<String> {
    if let Some(writes) = model.writes {
        return Some(format!("runs may change the model itself: {writes}"));
    }
    let is_baked = |argument: &&Argument| !matches!(argument.kind, ArgumentKind::Tensor | ArgumentKind::TensorDict);
    if let Some(argument) = model.arguments.iter().find(is_baked) {
        return Some(format!(
            "argument '{}' of type {} is not a tensor, and a graph would repeat its first value",
            argument.name, argument.type_text
        ));
    }
    let unfit = [
        (&WAITING[..], "waits for the GPU"),
        (&RANDOM[..], "draws random numbers"),
        (&FORKING[..], "runs a part of the model on another thread"),
    ];
    let called = |names: &[&str]| model.operators.iter().find(|operator| names.contains(&operator.as_str()));
    let mut found = unfit.into_iter().filter_map(|(names, does)| Some((called(names)?, does)));
    found.next().map(|(name, does)| format!("it calls {name}, which {does}"))
}

/// Returns true if a run may draw random numbers of the device's generator, which no run may do beside a capture.
pub(crate) fn draws(operators: &[String]) -> bool {
    operators.iter().any(|operator| RANDOM.contains(&operator.as_str()) || operator.contains("dropout"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ScalarKind;

    fn argument(name: &str, type_text: &str, kind: ArgumentKind) -> Argument {
        let (name, type_text) = (name.to_owned(), type_text.to_owned());
        Argument { name, type_text, kind, optional: false, mutated: false, example: None }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn of(operators: &[&str], arguments: &[Argument], writes: Option<&str>) -> Option<String> {
        obstacle(&ModelTraits { operators: &names(operators), arguments, writes })
    }

    #[test]
    fn a_model_of_kernels_alone_may_have_graphs() {
        let tensor = [
            argument("x", "Tensor", ArgumentKind::Tensor),
            argument("m", "Dict[str, Tensor]", ArgumentKind::TensorDict),
        ];
        assert_eq!(of(&["aten::linear", "aten::relu", "aten::dropout"], &tensor, None), None);
    }

    #[test]
    fn each_obstacle_has_a_sentence() {
        let tensor = [argument("x", "Tensor", ArgumentKind::Tensor)];
        let number = [
            argument("x", "Tensor", ArgumentKind::Tensor),
            argument("n", "int", ArgumentKind::Scalar(ScalarKind::Int)),
        ];
        for (operators, arguments, writes, words) in [
            (&["aten::nonzero"][..], &tensor[..], None, "it calls aten::nonzero, which waits for the GPU"),
            (
                &["aten::relu", "aten::randn_like"],
                &tensor,
                None,
                "it calls aten::randn_like, which draws random numbers",
            ),
            (&["prim::fork"], &tensor, None, "it calls prim::fork, which runs a part of the model on another thread"),
            (&[], &number, None, "argument 'n' of type int is not a tensor"),
            (&[], &tensor, Some("self.steps is assigned"), "change the model itself: self.steps is assigned"),
        ] {
            let reason = of(operators, arguments, writes).unwrap();
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn random_numbers_are_found_even_in_dropout() {
        assert!(draws(&names(&["aten::relu", "aten::dropout"])) && draws(&names(&["aten::bernoulli_"])));
        assert!(!draws(&names(&["aten::relu", "aten::item"])));
    }
}
