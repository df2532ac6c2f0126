//! Choice between the builds of a server's image: some servers have one for GPUs and one without.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::PodTemplate;
use weir_crds::quantity_value;

use crate::manifest::annotations::GPU_RESOURCE_TYPES;
use crate::runtimes::{CUDA, ServerType};

/// Suffix of the tag of images for GPUs.
const GPU: &str = "-gpu";

/// Suffix of the name of vLLM's image for CPUs.
const CPU: &str = "-cpu";

/// Prefixes of the resources for which images for GPUs are made, as in KServe.
const NVIDIA: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];

/// Prefixes of the GPU resources with which vLLM does not get its image for CPUs; the first is NVIDIA's.
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

/// Flag of Weir's runtime that selects the device of the models.
const DEVICE: &str = "--device";

/// Chooses the build of the serving container's image that fits its resources. KServe's runtimes name one build only;
/// KServe makes the same choice if the manifest names no version. An image without a tag, or with a digest, is kept.
pub(crate) fn choose_build(mut template: PodTemplateSpec, server: ServerType) -> PodTemplateSpec {
    let more = added_kinds(&template);
    if let Some(container) = serving(&mut template)
        && let Some(build) = build(container, server, &more)
    {
        container.image = Some(build);
    }
    template
}

/// Makes Weir's runtime use the GPU that its container requests, or refuse to start: by default it falls back to the
/// CPU if it finds no driver. A device set in the manifest is kept. An image without a tag or digest stands for a local
/// program, as Weir runs it without Kubernetes; such a program uses the devices that it finds.
pub(crate) fn require_gpu(mut template: PodTemplateSpec, server: ServerType) -> PodTemplateSpec {
    let more = added_kinds(&template);
    match (server, serving(&mut template)) {
        (ServerType::Weir, Some(container)) if asks_for_gpu(container, &more) => {
            let image = container.image.as_deref().unwrap_or_default();
            let is_release = image.contains('@') || name_and_tag(image).is_some();
            let args = container.args.get_or_insert_default();
            if is_release && !args.iter().any(|arg| is_device(arg)) {
                args.push(format!("{DEVICE}=cuda"));
            }
        }
        (_, Some(_) | None) => {}
    }
    template
}

/// Returns a message if the serving container of Weir's runtime requests a GPU that no image of Weir supports. The
/// runtime would refuse to start, because it would find no CUDA device. If the arguments select a device, the image is
/// assumed to support it.
pub(crate) fn unsupported_gpu(template: &PodTemplateSpec, server: ServerType) -> Option<String> {
    let container = PodTemplate::container(template)?;
    if server != ServerType::Weir || uses_cuda(container, &added_kinds(template)) {
        return None;
    }
    let resource = first_of(&GPUS[1..], container)?;
    let is_selected = container.args.iter().flatten().any(|arg| is_device(arg));
    (!is_selected).then(|| {
        format!(
            "the container {} asks for {resource}, and the images of Weir's runtime run models on NVIDIA GPUs and on \
             CPUs: request nvidia.com/gpu, use another runtime, or name an image that supports this device and set \
             {DEVICE} in args",
            container.name
        )
    })
}

fn is_device(arg: &str) -> bool {
    arg == DEVICE || arg.strip_prefix(DEVICE).is_some_and(|rest| rest.starts_with('='))
}

/// Returns the container that serves.
fn serving(template: &mut PodTemplateSpec) -> Option<&mut Container> {
    PodTemplate::serving_mut(&mut template.spec.as_mut()?.containers)
}

/// Returns the GPU resources that the pod's annotation adds.
fn added_kinds(template: &PodTemplateSpec) -> Vec<String> {
    let metadata = template.metadata.as_ref();
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let list = annotations.and_then(|annotations| annotations.get(GPU_RESOURCE_TYPES));
    // A value that is no list is reported by validation.
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

/// Returns true for a container with a GPU of any vendor, or a part of one.
fn asks_for_gpu(container: &Container, more: &[String]) -> bool {
    uses_cuda(container, more) || has_any(&GPUS[1..], container)
}

/// Returns true for a container whose GPU may support CUDA: one of NVIDIA, one from a claim, whose vendor is unknown,
/// or one that the pod's annotation adds.
fn uses_cuda(container: &Container, more: &[String]) -> bool {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    has_any(&NVIDIA, container) || is_claiming(container) || has_any(&more, container)
}

/// Returns a different image if the container's resources need one.
fn build(container: &Container, server: ServerType, more: &[String]) -> Option<String> {
    let image = container.image.as_deref()?;
    let (name, tag) = name_and_tag(image)?;
    match server {
        ServerType::TensorFlow | ServerType::TorchServe | ServerType::HuggingFace => {
            let fits = !uses_cuda(container, more) || tag.ends_with(GPU);
            (!fits).then(|| format!("{image}{GPU}"))
        }
        ServerType::Vllm => {
            let fits = has_any(&GPUS, container) || is_claiming(container) || name.ends_with(CPU);
            (!fits).then(|| format!("{name}{CPU}:{tag}"))
        }
        ServerType::Weir => {
            let fits = !uses_cuda(container, more) || tag.ends_with(CUDA);
            (!fits).then(|| format!("{image}{CUDA}"))
        }
        ServerType::MlServer | ServerType::Triton => None,
    }
}

/// Returns true if a container has a resource with one of these prefixes in its limits or its requests. Devices that
/// are only requested get an equal limit later.
fn has_any(prefixes: &[&str], container: &Container) -> bool {
    first_of(prefixes, container).is_some()
}

/// Returns the first of a container's resources with one of these prefixes.
fn first_of<'a>(prefixes: &[&str], container: &'a Container) -> Option<&'a str> {
    let resources = container.resources.iter();
    let amounts = resources.flat_map(|resources| [&resources.limits, &resources.requests]);
    let asked = amounts.flatten().flatten().filter(|(_, amount)| quantity_value(&amount.0) != Some(0.0));
    let mut names = asked.map(|(name, _)| name.as_str());
    names.find(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Returns true if a container gets devices by dynamic resource allocation.
fn is_claiming(container: &Container) -> bool {
    let resources = container.resources.as_ref();
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    claims.is_some_and(|claims| !claims.is_empty())
}

/// Returns name and tag of an image that has a tag and no digest. A registry's port is not a tag.
fn name_and_tag(image: &str) -> Option<(&str, &str)> {
    let (name, tag) = image.rsplit_once(':')?;
    (!image.contains('@') && !tag.contains('/')).then_some((name, tag))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_cluster::Workload;

    use super::*;

    /// Returns the image that a server gets in place of this one, with this limit.
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
    fn a_gpu_that_is_only_requested_counts() {
        let of = |image: &str, resources: serde_json::Value| {
            let container = json!({ "name": "a", "image": image, "resources": resources });
            serde_json::from_value::<Container>(container).unwrap()
        };
        let gpu = json!({ "requests": { "nvidia.com/gpu": "1" } });
        let huggingface = build(&of("a:1", gpu.clone()), ServerType::HuggingFace, &[]);
        assert_eq!(huggingface.as_deref(), Some("a:1-gpu"));
        assert_eq!(build(&of("a:1", gpu), ServerType::Vllm, &[]), None);
    }

    #[test]
    fn vllm_without_a_gpu_gets_the_image_for_cpus() {
        let vllm = |image, limit| chosen(ServerType::Vllm, image, limit);
        let image = "host:5000/vllm-openai:v0.9.2";
        let of_cpu = "host:5000/vllm-openai-cpu:v0.9.2";
        assert_eq!(vllm(image, ("cpu", "4")), of_cpu);
        assert_eq!(vllm(of_cpu, ("cpu", "4")), of_cpu);
        assert_eq!(vllm(image, ("nvidia.com/gpu", "1")), image);
        assert_eq!(vllm(image, ("amd.com/gpu", "1")), image);
    }

    #[test]
    fn a_claim_and_an_added_kind_get_the_image_for_gpus() {
        for resources in [json!({ "claims": [{ "name": "gpu" }] }), json!({ "limits": { "example.com/a100": "1" } })] {
            let container = json!({ "name": "a", "image": "a:1", "resources": resources });
            let container: Container = serde_json::from_value(container).unwrap();
            for server in [ServerType::TensorFlow, ServerType::TorchServe, ServerType::HuggingFace] {
                let image = build(&container, server, &["example.com/a100".to_owned()]);
                assert_eq!(image.as_deref(), Some("a:1-gpu"), "{resources}");
            }
        }
    }

    #[test]
    fn a_gpu_that_weirs_images_do_not_support_is_an_error() {
        let message = |resource: &str, args: &[&str], server| {
            let limits = json!({ "limits": { resource: "1" } });
            let container = json!({ "name": Workload::CONTAINER, "image": "a:1", "resources": limits, "args": args });
            let template = json!({ "spec": { "containers": [container] } });
            unsupported_gpu(&serde_json::from_value(template).unwrap(), server)
        };
        for resource in ["amd.com/gpu", "gpu.intel.com/i915", "intel.com/gpu", "habana.ai/gaudi", "google.com/tpu"] {
            let text = message(resource, &[], ServerType::Weir).unwrap();
            let start = format!("the container kserve-container asks for {resource}, and the images of Weir's runtime");
            assert!(text.starts_with(&start), "{text}");
            assert_eq!(message(resource, &["--device=cuda"], ServerType::Weir), None);
            assert_eq!(message(resource, &["--device", "cpu"], ServerType::Weir), None);
            assert_eq!(message(resource, &[], ServerType::Vllm), None);
        }
        for resource in ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "cpu", "example.com/fpga"] {
            assert_eq!(message(resource, &[], ServerType::Weir), None);
        }
    }

    /// Returns the image and the arguments of Weir's runtime with these resources.
    fn weir(image: &str, resources: serde_json::Value, args: &[&str]) -> (String, Vec<String>) {
        let container = json!({ "name": Workload::CONTAINER, "image": image, "resources": resources, "args": args });
        let template = json!({
            "metadata": { "annotations": { GPU_RESOURCE_TYPES: "[\"example.com/a100\"]" } },
            "spec": { "containers": [container] },
        });
        let template = serde_json::from_value(template).unwrap();
        let template = require_gpu(choose_build(template, ServerType::Weir), ServerType::Weir);
        let container = template.spec.unwrap().containers.remove(0);
        (container.image.unwrap(), container.args.unwrap_or_default())
    }

    #[test]
    fn weirs_runtime_runs_on_the_requested_gpu_or_not_at_all() {
        let limit = |name: &str, amount: &str| json!({ "limits": { name: amount } });
        for resources in [
            limit("nvidia.com/gpu", "1"),
            limit("nvidia.com/gpu.shared", "1"),
            limit("nvidia.com/mig-1g.10gb", "1"),
            limit("example.com/a100", "2"),
            json!({ "requests": { "nvidia.com/gpu": "1" } }),
            json!({ "claims": [{ "name": "gpu" }] }),
        ] {
            let (image, args) = weir("r/weir-runtime:0.1.0", resources.clone(), &["--id=a"]);
            assert_eq!(image, "r/weir-runtime:0.1.0-cuda", "{resources}");
            assert_eq!(args, ["--id=a", "--device=cuda"], "{resources}");
        }
        for resources in [limit("cpu", "1"), limit("nvidia.com/gpu", "0"), limit("nvidia.com/hostdev", "1")] {
            let (image, args) = weir("weir-runtime:0.1.0", resources.clone(), &[]);
            assert_eq!((image.as_str(), args.len()), ("weir-runtime:0.1.0", 0), "{resources}");
        }
        // A GPU without CUDA: the runtime fails to start, and says why.
        let (image, args) = weir("weir-runtime:1", limit("amd.com/gpu", "1"), &[]);
        assert_eq!((image.as_str(), &*args), ("weir-runtime:1", &["--device=cuda".to_owned()][..]));
    }

    #[test]
    fn image_and_device_of_the_manifest_are_kept() {
        let gpu = json!({ "limits": { "nvidia.com/gpu": "1" } });
        for args in [&["--device=auto"][..], &["--device", "cuda:0"]] {
            assert_eq!(weir("weir-runtime:1-cuda", gpu.clone(), args).1, args);
        }
        let (image, args) = weir("weir-runtime@sha256:0", gpu.clone(), &[]);
        assert_eq!((image.as_str(), args.len()), ("weir-runtime@sha256:0", 1));
        // Without Kubernetes the image names a local program.
        let (image, args) = weir("weir-runtime", gpu, &[]);
        assert_eq!((image.as_str(), args.len()), ("weir-runtime", 0));
    }

    #[test]
    fn an_image_without_a_tag_or_with_a_digest_is_kept() {
        for image in ["host:5000/a", "a", "a:1@sha256:0", "a@sha256:0"] {
            let gpu = ("nvidia.com/gpu", "1");
            assert_eq!(chosen(ServerType::HuggingFace, image, gpu), image);
        }
    }
}
