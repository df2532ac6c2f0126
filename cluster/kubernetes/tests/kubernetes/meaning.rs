//! Comparison of pod templates by meaning, checked against the API server's own defaults and quantities.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use weir_cluster::PodTemplate;

use crate::server;

const NAMESPACE: &str = "meaning";

/// Returns a template with a field of every kind that an API server completes.
fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "meaning" } },
        "spec": {
            "containers": [{
                "name": "server", "image": "example/server:1", "envFrom": [], "command": [],
                "resources": {
                    "limits": { "cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1e9" },
                    "requests": { "cpu": "0.5" },
                },
                "ports": [{ "containerPort": 80 }, { "containerPort": 81, "protocol": "UDP" }],
                "env": [
                    { "name": "EMPTY", "value": "" },
                    { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                    { "name": "CPUS", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
                    { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } },
                ],
                "livenessProbe": { "httpGet": { "port": 80 } },
                "readinessProbe": { "grpc": { "port": 80 } },
                "startupProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": 5 },
                "lifecycle": { "preStop": { "httpGet": { "port": 80, "path": "/stop" } } },
                "volumeMounts": [{ "name": "memory", "mountPath": "/memory" }],
                "securityContext": {},
            }],
            "initContainers": [{ "name": "first", "image": "example/first", "restartPolicy": "Always" }],
            "serviceAccountName": "reader",
            "tolerations": [{ "key": "gpu", "value": "a", "effect": "NoSchedule" }, { "operator": "Exists" }],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {},
            }],
            "volumes": [
                { "name": "memory", "emptyDir": { "sizeLimit": "1.5Gi" } },
                { "name": "secret", "secret": { "secretName": "a" } },
                { "name": "config", "configMap": { "name": "a" } },
                { "name": "down", "downwardAPI": { "items": [
                    { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
                ] } },
                { "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
                { "name": "host", "hostPath": { "path": "/a" } },
                { "name": "claim", "persistentVolumeClaim": { "claimName": "a" } },
                { "name": "made", "ephemeral": { "volumeClaimTemplate": { "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Ki" } },
                } } } },
            ],
        },
    })
}

fn read(template: &Value) -> PodTemplate {
    let template: PodTemplateSpec = serde_json::from_value(template.clone()).unwrap();
    template.into()
}

/// Returns the template as the API server would store it.
async fn stored(deployments: &Api<Deployment>, template: &Value) -> PodTemplate {
    let deployment = json!({
        "metadata": { "name": "meaning" },
        "spec": { "selector": { "matchLabels": { "app": "meaning" } }, "template": template },
    });
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let deployment = serde_json::from_value(deployment).unwrap();
    let made = deployments.create(&dry, &deployment).await.unwrap();
    let mut template = made.spec.unwrap().template;
    // Weir has its own default for this field.
    let pod = template.spec.as_mut().unwrap();
    for container in pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()) {
        assert_eq!(container.termination_message_policy.as_deref(), Some("File"));
        container.termination_message_policy = None;
    }
    template.into()
}

#[tokio::test]
async fn a_template_completed_by_the_api_server_has_the_same_meaning() {
    let client = server::client().await;
    server::namespace(&client, NAMESPACE).await;
    let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
    let written = template();
    let completed = stored(&deployments, &written).await;
    assert_ne!(completed, read(&written));
    assert!(completed.is_equivalent(&read(&written)), "{}\n{}", completed.as_str(), read(&written).as_str());
}

#[tokio::test]
async fn quantities_compare_as_on_the_api_server() {
    let client = server::client().await;
    server::namespace(&client, NAMESPACE).await;
    let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
    let with = |amount: &str| {
        let mut template = template();
        let limits = &mut template["spec"]["containers"][0]["resources"]["limits"];
        limits["memory"] = amount.into();
        template
    };
    let amounts = [
        "1Gi",
        "1024Mi",
        "1073741824",
        "1.5Gi",
        "1536Mi",
        "1e9",
        "1G",
        "1000M",
        "1000000001",
        "1Ti",
        "0.1",
        "100m",
        "100u",
        "1m",
        "2E",
        "1.0001",
    ];
    let mut all = Vec::new();
    for amount in amounts {
        let stored = stored(&deployments, &with(amount)).await;
        assert!(stored.is_equivalent(&read(&with(amount))), "{amount}");
        all.push((amount, stored));
    }
    let equal = |one: &str, other: &str| {
        let find = |amount| &all.iter().find(|(text, _)| *text == amount).unwrap().1;
        find(one).is_equivalent(find(other))
    };
    for (one, other) in [("1Gi", "1024Mi"), ("1Gi", "1073741824"), ("1e9", "1G"), ("0.1", "100m"), ("100u", "1m")] {
        assert!(equal(one, other), "{one} {other}");
    }
    for (one, other) in [("1Gi", "1G"), ("1G", "1000000001"), ("0.1", "1m")] {
        assert!(!equal(one, other), "{one} {other}");
    }
}
