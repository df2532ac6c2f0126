//! The build of a server's image that fits what its pod has: some servers come in one for GPUs and one without.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::Workload;
use weir_crds::quantity_value;

use crate::runtimes::ServerType;

/// End of the tag of the images for GPUs.
const GPU: &str = "-gpu";

/// End of the name of vLLM's image without GPUs.
const CPU: &str = "-cpu";

/// Prefixes of the resources that images for GPUs are made for, as in KServe.
const NVIDIA: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];

/// Prefixes of the resources with which vLLM needs no image for nodes without a GPU.
const GPUS: [&str; 8] = [
    "nvidia.com/",
    "amd.com/",
    "intel.com/",
    "gpu.intel.com/",
    "habana.ai/",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "huawei.com/Ascend",
];

/// Names the build of the serving container's image that fits its resources, as KServe does where no version is asked
/// for: its runtimes name one build only. An image without a tag, or with a digest, stays.
pub(crate) fn choose_build(mut template: PodTemplateSpec, server: ServerType) -> PodTemplateSpec {
    let containers = template.spec.as_mut().map(|pod| &mut pod.containers);
    if let Some(containers) = containers {
        let serving = containers
            .iter()
            .position(|c| c.name == Workload::CONTAINER);
        if let Some(container) = containers.get_mut(serving.unwrap_or(0))
            && let Some(build) = build(container, server)
        {
            container.image = Some(build);
        }
    }
    template
}

/// Another image than the container's, if its resources need one.
fn build(container: &Container, server: ServerType) -> Option<String> {
    let image = container.image.as_deref()?;
    let (name, tag) = name_and_tag(image)?;
    match server {
        ServerType::TensorFlow | ServerType::TorchServe | ServerType::HuggingFace => {
            let fits = !has_any(&NVIDIA, container) || tag.ends_with(GPU);
            (!fits).then(|| format!("{image}{GPU}"))
        }
        ServerType::Vllm => {
            let fits = has_any(&GPUS, container) || is_claiming(container) || name.ends_with(CPU);
            (!fits).then(|| format!("{name}{CPU}:{tag}"))
        }
        ServerType::MlServer | ServerType::Triton => None,
    }
}

/// True if a container has a resource with one of these prefixes, in its limits or its requests: devices that are only
/// requested get a limit of as many later.
fn has_any(prefixes: &[&str], container: &Container) -> bool {
    let resources = container.resources.iter();
    let amounts = resources.flat_map(|resources| [&resources.limits, &resources.requests]);
    amounts.flatten().flatten().any(|(name, amount)| {
        let is_one = prefixes.iter().any(|prefix| name.starts_with(prefix));
        is_one && quantity_value(&amount.0) != Some(0.0)
    })
}

/// Whether a container has devices by dynamic allocation.
fn is_claiming(container: &Container) -> bool {
    let resources = container.resources.as_ref();
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    claims.is_some_and(|claims| !claims.is_empty())
}

/// Name and tag of an image that has a tag and no digest. A port of the registry is no tag.
fn name_and_tag(image: &str) -> Option<(&str, &str)> {
    let (name, tag) = image.rsplit_once(':')?;
    (!image.contains('@') && !tag.contains('/')).then_some((name, tag))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The image that a server gets in place of this one, with this limit.
    fn chosen(server: ServerType, image: &str, limit: (&str, &str)) -> String {
        let (resource, amount) = limit;
        let template = json!({ "spec": { "containers": [
            { "name": "proxy", "image": "example/proxy:1" },
            { "name": Workload::CONTAINER, "image": image, "resources": { "limits": { resource: amount } } },
        ] } });
        let template = choose_build(serde_json::from_value(template).unwrap(), server);
        let pod = template.spec.unwrap();
        let [proxy, serving] = &pod.containers[..] else {
            panic!("there are two containers");
        };
        assert_eq!(proxy.image.as_deref(), Some("example/proxy:1"));
        serving.image.clone().unwrap()
    }

    #[test]
    fn a_gpu_gets_the_image_for_gpus() {
        let image = "kserve/huggingfaceserver:v0.21.0";
        let of_gpu = "kserve/huggingfaceserver:v0.21.0-gpu";
        let huggingface = |image, limit| chosen(ServerType::HuggingFace, image, limit);
        assert_eq!(huggingface(image, ("nvidia.com/gpu", "1")), of_gpu);
        assert_eq!(huggingface(image, ("nvidia.com/mig-1g.10gb", "1")), of_gpu);
        assert_eq!(huggingface(of_gpu, ("nvidia.com/gpu", "1")), of_gpu);
        assert_eq!(huggingface(image, ("nvidia.com/gpu", "0")), image);
        assert_eq!(huggingface(image, ("cpu", "1")), image);
        for server in [ServerType::TensorFlow, ServerType::TorchServe] {
            assert_eq!(chosen(server, "a:1", ("nvidia.com/gpu", "1")), "a:1-gpu");
        }
        for server in [ServerType::Triton, ServerType::MlServer] {
            assert_eq!(chosen(server, "a:1", ("nvidia.com/gpu", "1")), "a:1");
        }
    }

    #[test]
    fn a_gpu_that_is_only_requested_is_one() {
        let of = |image: &str, resources: serde_json::Value| {
            let container = json!({ "name": "a", "image": image, "resources": resources });
            serde_json::from_value::<Container>(container).unwrap()
        };
        let gpu = json!({ "requests": { "nvidia.com/gpu": "1" } });
        let huggingface = build(&of("a:1", gpu.clone()), ServerType::HuggingFace);
        assert_eq!(huggingface.as_deref(), Some("a:1-gpu"));
        assert_eq!(build(&of("a:1", gpu), ServerType::Vllm), None);
    }

    #[test]
    fn vllm_without_a_gpu_gets_the_image_without() {
        let vllm = |image, limit| chosen(ServerType::Vllm, image, limit);
        let image = "host:5000/vllm-openai:v0.9.2";
        let of_cpu = "host:5000/vllm-openai-cpu:v0.9.2";
        assert_eq!(vllm(image, ("cpu", "4")), of_cpu);
        assert_eq!(vllm(of_cpu, ("cpu", "4")), of_cpu);
        assert_eq!(vllm(image, ("nvidia.com/gpu", "1")), image);
        assert_eq!(vllm(image, ("amd.com/gpu", "1")), image);
    }

    #[test]
    fn an_image_without_a_tag_or_with_a_digest_stays() {
        for image in ["host:5000/a", "a", "a:1@sha256:0", "a@sha256:0"] {
            let gpu = ("nvidia.com/gpu", "1");
            assert_eq!(chosen(ServerType::HuggingFace, image, gpu), image);
        }
    }
}
