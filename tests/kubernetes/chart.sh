#!/usr/bin/env bash
# Tests the chart: `chart.sh lint` alone, `chart.sh install` with a control plane, where pods run on simulated nodes.
set -euo pipefail
cd "$(dirname "$0")/../.."
bed=tests/kubernetes/bed
chart=charts/weir
namespace=weir-system
ours=app.kubernetes.io/part-of=weir
passed=0
# shellcheck source=tests/kubernetes/checks.sh
. tests/kubernetes/checks.sh

render() { helm template weir $chart --namespace $namespace "$@"; }

refused() { # refused WORD SETTING: checks that the schema refuses a setting, with this word in the message
    local output
    if output=$(render --set "$2" 2>&1); then check "$2" refused taken; fi
    check "$2: $output" "$1" "$(grep -o -- "$1" <<<"$output" | head -n 1)"
}

copies_match_their_sources() {
    check "charts/weir/crds equals crds/yaml (make generate copies it)" "" "$(diff -rq crds/yaml $chart/crds)"
    check "the chart's appVersion is the workspace's version" "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" \
        "$(sed -n 's/^appVersion: //p' $chart/Chart.yaml)"
}

body_limit() { render "$@" | grep -o -- '--max-inflight-bytes=[0-9]*' | cut -d= -f2; }

# Bodies may take twice this number of bytes, and a gateway that runs out of memory loses all of its requests.
body_limit_fits_the_memory_limit() {
    refused maxInflightBytes gateway.maxInflightBytes=much
    refused maxInflightBytes gateway.maxInflightBytes=0Gi
    check "body limit by default" 536870912 "$(body_limit)"
    check "body limit with 256Mi of memory" 67108864 "$(body_limit --set gateway.resources.limits.memory=256Mi)"
    check "body limit with 1.5G of memory" 375000000 "$(body_limit --set gateway.resources.limits.memory=1.5G)"
    check "body limit with memory in bytes" 268435456 "$(body_limit --set gateway.resources.limits.memory=1073741824)"
    check "body limit that is set" 314572800 "$(body_limit --set gateway.maxInflightBytes=300Mi)"
    check "body limit in pebibytes" 1125899906842624 "$(body_limit --set gateway.maxInflightBytes=1Pi)"
    check "no body limit without a memory limit" "" "$(body_limit --set-json gateway.resources.limits=null || true)"
}

address_flags() { render "$@" | grep -E -- '-address=|--address=' | tr -d " '" | LC_ALL=C sort | uniq -c | awk '{print $1 $2}' | paste -sd ' '; }

# If pods have IPv6 addresses, the kubelet and all clients use these. YAML would interpret a colon at the end of a
# value.
listen_address_applies_to_each_port() {
    refused listenAddress listenAddress=weir.example.com
    check "no addresses by default" "" "$(address_flags)"
    check "addresses with listenAddress" '1-"--grpc-address=::" 1-"--http-address=::" 3---address=::' "$(address_flags --set listenAddress=::)"
}

field() { sed -n "s/^ *$1: //p" | sort -u | paste -sd ' '; } # field NAME: prints the field's values in the objects on stdin

images_take_digests() {
    local digest
    digest=sha256:$(printf '0%.0s' $(seq 64))
    refused digest weir.image.digest=sha256:0
    check "images with digests" "\"weir-runtime:1-cuda@$digest\" \"weir@$digest\"" \
        "$(render --set "weir.image.digest=$digest,runtime.image.digest=$digest,runtime.image.tag=1-cuda" | field image)"
    check "image of the download, with its digest" 1 "$(render --set "weir.image.digest=$digest" | grep -c "WEIR_IMAGE, value: \"weir@$digest\"")"
}

external_service() { render --set gateway.external.type=LoadBalancer "$@" | sed -n '/name: weir-gateway-external/,/^---/p'; }

external_service_takes_its_values() {
    refused externalTrafficPolicy gateway.external.externalTrafficPolicy=Near
    refused loadBalancerSourceRanges "gateway.external.loadBalancerSourceRanges={10.0.0.0}"
    check "fields of the external Service by default" "" "$(external_service | grep -E 'Policy|loadBalancer' || true)"
    check "external traffic policy" '"Local"' "$(external_service --set gateway.external.externalTrafficPolicy=Local | field externalTrafficPolicy)"
    check "IP family policy" '"PreferDualStack"' "$(external_service --set gateway.external.ipFamilyPolicy=PreferDualStack | field ipFamilyPolicy)"
    check "load balancer source ranges" '["10.0.0.0/8","fd00::/8"]' \
        "$(external_service --set 'gateway.external.loadBalancerSourceRanges={10.0.0.0/8,fd00::/8}' | field loadBalancerSourceRanges)"
    check "load balancer class" '"example.com/inner"' "$(external_service --set gateway.external.loadBalancerClass=example.com/inner | field loadBalancerClass)"
}

monitors() { render -s templates/monitoring.yaml --set monitoring.podMonitor=true,monitoring.rules=true "$@"; }

# An alert on a metric that was renamed would never fire.
alerts_use_documented_metrics() {
    local metric metrics
    check "no objects of the Prometheus operator by default" 0 "$(render | grep -c monitoring.coreos.com)"
    check "objects of the Prometheus operator" "PodMonitor PrometheusRule" "$(monitors | field kind)"
    check "labels of these objects" 3 "$(monitors --set monitoring.labels.release=stack | grep -c '^    release: stack')"
    check "PodMonitors" "weir weir-services" "$(monitors --set monitoring.rules=false | sed -n '/^metadata:/{n;s/^  name: //p}' | sort | paste -sd ' ')"
    check "scraped namespaces" "{any: true}" "$(monitors | field namespaceSelector)"
    check "scraped namespaces with watchNamespace" '{matchNames: ["team"]}' "$(monitors --set watchNamespace=team | field namespaceSelector)"
    check "scrape annotations that the PodMonitor reads" "path port scrape" \
        "$(monitors | grep -oE 'annotation_prometheus_io_[a-z]+' | sed 's/.*_//' | sort -u | paste -sd ' ')"
    check "permission of models to contain code" "forbid" "$(render -s templates/runtime.yaml --set runtime.modelCode=forbid | sed -n 's/.*WEIR_MODEL_CODE, value: \([a-z]*\)}.*/\1/p')"
    check "scrape annotations of weir-libtorch" "path port scrape" "$(render -s templates/runtime.yaml | sed -n 's/^ *prometheus.io.\([a-z]*\):.*/\1/p' | sort -u | paste -sd ' ')"
    check "alerts without PodMonitors" PrometheusRule "$(monitors --set monitoring.podMonitor=false | field kind)"
    metrics=$(monitors --set monitoring.podMonitor=false | grep -oE 'weir_[a-z_]+' | sort -u)
    check "number of metrics in alerts" 13 "$(wc -l <<<"$metrics")"
    for metric in $metrics; do
        check "docs/metrics.md has $metric" 1 "$(grep -c "^| \`${metric%_count}\` " docs/metrics.md)"
    done
    check "docs/kubernetes.md explains each alert" "$(monitors | field '- alert' | tr ' ' '\n')" \
        "$(grep '^| `Weir' docs/kubernetes.md | cut -d'|' -f2 | grep -oE 'Weir[A-Za-z]+' | sort -u)"
}

budgets() { render "$@" | grep -A2 '^kind: PodDisruptionBudget' | field name; }

# A disruption budget for a single pod would either have no effect or block every drain.
disruption_budgets_match_replicas() {
    check "disruption budgets by default" weir-gateway "$(budgets)"
    check "disruption budgets with two replicas of each component" "weir-autoscaler weir-controller weir-gateway" "$(budgets --set controller.replicas=2,autoscaler.replicas=2)"
    check "spread constraints ignore pods of older templates" 6 "$(render | grep -c 'matchLabelKeys: \[pod-template-hash\]')"
}

pod_marks() { render -s templates/gateway.yaml "$@" | grep -oE '(prometheus.io/scrape|kubernetes.io/name|team): .*' | sort | uniq -c | awk '{print $1 $2 $3}' | paste -sd ' '; }

# Rendering the chart with kustomize, as Flux does, fails if a mapping has a key twice.
pod_labels_and_annotations_are_unique() {
    check "pod labels and annotations that values set" '10kubernetes.io/name:weir-gateway 1prometheus.io/scrape:"false" 1team:a' \
        "$(pod_marks --set-string 'gateway.podAnnotations.prometheus\.io/scrape=false' \
            --set 'gateway.podLabels.team=a,gateway.podLabels.app\.kubernetes\.io/name=mine')"
    check "a namespace and a release named by digits are quoted" 0 \
        "$(helm template 123 $chart --namespace 456 --set-string watchNamespace=789 | grep -cE '(namespace|instance|metadata.name): [0-9]')"
}

runtimes() { render -s templates/serving-runtimes.yaml --set servingRuntimes.enabled=true "$@"; }

# Services name KServe's runtimes, and Weir's own runtime stays the one of the formats that both serve.
serving_runtimes_have_kserves_names() {
    local digest
    digest=sha256:$(printf '0%.0s' $(seq 64))
    check "no runtimes of others by default" weir-libtorch "$(render | sed -n '/^kind: ClusterServingRuntime/,/^  name/s/^  name: //p')"
    check "runtimes of others" "kserve-huggingfaceserver kserve-mlserver kserve-torchserve kserve-tritonserver kserve-vllmserver" \
        "$(runtimes | sed -n 's/^  name: //p' | sort | paste -sd ' ')"
    check "types of these servers" "huggingfaceserver mlserver torchserve tritonserver vllmserver" \
        "$(runtimes | sed -n 's/.*server-type: \([a-z]*\)}/\1/p' | sort | paste -sd ' ')"
    check "priorities below those of weir-libtorch" "1 2" "$(runtimes | grep -o 'priority: [0-9]*' | sort -u | cut -d' ' -f2 | paste -sd ' ')"
    check "a probe, a scraped port and a server port each" "5 5 5" \
        "$(runtimes | grep -c readinessProbe) $(runtimes | grep -c 'prometheus.io/port') $(runtimes | grep -c 'name: http1')"
    check "TorchServe asks for no token" 1 "$(runtimes | grep -c -- --disable-token-auth)"
    check "images have versions" 0 "$(runtimes | grep 'image:' | grep -cE 'latest|:"?$')"
    check "placeholders are left to the controller" "{{.Labels.modelClass}} {{.Labels.serviceEnvelope}} {{.Name}} {{.Name}}" \
        "$(runtimes | grep -o '{{[.A-Za-z]*}}' | sort | paste -sd ' ')"
    check "a runtime that is left out" 4 "$(runtimes --set servingRuntimes.vllmserver.enabled=false | grep -c '^kind')"
    check "a mirrored image" 1 "$(runtimes --set "servingRuntimes.mlserver.image.repository=example.com/mlserver,servingRuntimes.mlserver.image.digest=$digest" |
        grep -c "image: \"example.com/mlserver:1.7.1@$digest\"")"
    check "resources of one runtime" 1 "$(runtimes --set servingRuntimes.vllmserver.resources.limits.memory=48Gi | grep -c 48Gi)"
    refused servingRuntimes servingRuntimes.sklearn.enabled=true
    refused enabled servingRuntimes.enabled=some
    helm lint --strict --quiet $chart --set servingRuntimes.enabled=true
}

model_cache() { render -s templates/model-cache.yaml --set modelCache.enabled=true "$@"; }

# The cache runs as root with a directory of the node, and so it must have no other right.
model_cache_has_one_right() {
    check "no model cache by default" 0 "$(render | grep -c model-cache)"
    check "kinds of the model cache" "ClusterRole ClusterRoleBinding DaemonSet Service ServiceAccount" \
        "$(model_cache | sed -n 's/^kind: //p' | sort | paste -sd ' ')"
    check "rights of the model cache" '{"apiGroups":["authentication.k8s.io"],"resources":["tokenreviews"],"verbs":["create"]}' \
        "$(model_cache | sed -n '/^rules:/{n;s/^ *- //p}')"
    check "capabilities and root file system of the model cache" "{drop: [ALL]} true" \
        "$(model_cache | field capabilities) $(model_cache | field readOnlyRootFilesystem)"
    check "the Service's pods are those of the node" Local "$(model_cache | field internalTrafficPolicy)"
    check "directory of the node" 1 "$(model_cache --set modelCache.hostPath=/data/models | grep -c 'hostPath: {path: "/data/models", type: DirectoryOrCreate}')"
    check "bytes of the cache" 1 "$(model_cache --set modelCache.maxBytes=1.5Ti | grep -c -- '- --max-bytes=1649267441664$')"
    check "nodes of the cache" 2 "$(model_cache --set 'modelCache.nodeSelector.gpu=a,modelCache.tolerations[0].operator=Exists' |
        grep -cE '^ +(gpu: a|- operator: Exists)$')"
    check "the controller knows the cache" 1 \
        "$(render --set modelCache.enabled=true | grep -c -- "--model-cache-url=http://weir-model-cache.$namespace.svc.cluster.local:8082")"
    refused maxBytes modelCache.maxBytes=0
    refused maxBytes modelCache.maxBytes=much
    local path
    for path in / models /a/../b /..; do refused hostPath "modelCache.hostPath=$path"; done
    helm lint --strict --quiet $chart --set modelCache.enabled=true
}

access() { render --set access.enabled=true "$@"; }

# Authorities and tokens of issuers are files, which change seldom, so that a minute's delay of a mount matters little.
access_files_are_mounted() {
    local files='access.files=[{"name":"sso","configMap":"sso-ca"},{"name":"sso-token","secret":"token"}]'
    local issuer='access.issuers=[{"issuer":"https://sso","audiences":["weir"],"caFile":"/etc/weir/access/sso/ca.crt"}]'
    local certificates='access.clientCertificates=[{"caFile":"/etc/weir/access/sso/clients.crt","clientPrefix":"ca:"}]'
    local rendered
    rendered=$(access --set-json "$files" --set-json "$issuer" --set-json "$certificates")
    check "mounts of gateways" "sso read-only sso-token read-only" "$(sed -n \
        's|^ *- {name: access-.*, mountPath: /etc/weir/access/\(.*\), readOnly: true}$|\1 read-only|p' <<<"$rendered" | paste -sd ' ')"
    check "volumes of gateways" "configMap: {name: sso-ca} secret: {secretName: token}" \
        "$(sed -n 's/^ *- {name: access-[-a-z]*, \(.*\)}$/\1/p' <<<"$rendered" | grep -v mountPath | paste -sd ' ')"
    check "the issuer's authorities" 1 "$(grep -cF '\"caFile\":\"/etc/weir/access/sso/ca.crt\"' <<<"$rendered")"
    check "authorities of clients" 1 "$(grep -cF '\"clientCertificates\":[{\"caFile\":\"/etc/weir/access/sso/clients.crt\"' <<<"$rendered")"
    check "no mounts without access control" 0 "$(render --set-json "$files" | grep -c /etc/weir/access)"
    refused name 'access.files[0].configMap=sso-ca'
    refused name 'access.files[0].name=../tls,access.files[0].configMap=sso-ca'
    refused files 'access.files[0].name=sso'
    refused files 'access.files[0].name=sso,access.files[0].configMap=a,access.files[0].secret=b'
    refused "the same name" 'access.enabled=true,access.files[0].name=a,access.files[0].secret=x,access.files[1].name=a,access.files[1].secret=y'
    helm lint --strict --quiet $chart --set access.enabled=true --set-json "$files" --set-json "$issuer" --set-json "$certificates"
}

# A mounted Secret is up to a minute old, so gateways watch it, with rights for exactly their two objects.
access_is_watched() {
    refused kind access.issuers[0].kind=ldap
    check "nothing of access control by default" 0 "$(render | grep -cE 'access|nonResourceURLs')"
    check "watched objects" "--access-config-map=weir-access-rules --access-secret=weir-access" "$(access | grep -o -- '--access-.*' | paste -sd ' ')"
    check "no Secret if keys are not used" "--access-config-map=weir-access-rules" "$(access --set access.secretName= | grep -o -- '--access-.*')"
    check "nothing is mounted" 0 "$(access | grep -c 'mountPath: /etc/weir')"
    check "rights to read these objects" '"configmaps":"weir-access-rules" "secrets":"mine"' \
        "$(access --set access.secretName=mine -s templates/rbac.yaml |
            sed -n 's/.*"resourceNames":\["\(weir-access-rules\|mine\)"\],"resources":\[\("[a-z]*"\)\],"verbs":\["list","watch"\]}$/\2:"\1"/p' | paste -sd ' ')"
    check "access document by default" 1 "$(access | grep -cF 'rules.yaml: "{\"clientCertificates\":[],\"issuers\":[{\"kind\":\"kubernetes\"}],\"limits\":[],\"rules\":[]}"')"
    check "right to read the keys of tokens" 1 "$(access | grep -c '"nonResourceURLs":\["/.well-known/openid-configuration","/openid/v1/jwks"\]')"
    check "no such right without tokens" 0 "$(access --set-json 'access.issuers=[]' | grep -c nonResourceURLs)"
    check "access rules" 1 "$(access --set 'access.rules[0].clients={a},access.rules[0].services={a/*}' |
        grep -cF '\"rules\":[{\"clients\":[\"a\"],\"services\":[\"a/*\"]}]}"')"
    check "limits" 1 "$(access --set 'access.limits[0].clients={a},access.limits[0].weight=4' | grep -cF '\"limits\":[{\"clients\":[\"a\"],\"weight\":4}]')"
    helm lint --strict --quiet $chart --set access.enabled=true
}

peer_flags() { render "$@" | grep -oE -- '--peer-[a-z]+=[^ "]*' | paste -sd ' '; }

# The controllers keep the Secret that the gateways watch, with rights for exactly this one.
gateways_have_certificates() {
    refused trust gateway.peerTls.trust=none
    check "certificates by default" \
        "--peer-secret=weir-gateway-peers --peer-secret=weir-gateway-peers --peer-trust=certificate-or-address" "$(peer_flags)"
    check "rights to this Secret" '["list","watch"] ["list","watch","update"]' \
        "$(render -s templates/rbac.yaml | sed -n 's/.*"resourceNames":\["weir-gateway-peers"\],.*"verbs":\(.*\)}$/\1/p' | paste -sd ' ')"
    check "a Secret of the administrator" \
        "--peer-cert=/etc/weir/peers/tls.crt --peer-key=/etc/weir/peers/tls.key --peer-ca=/etc/weir/peers/ca.crt --peer-trust=certificate" \
        "$(peer_flags --set gateway.peerTls.secretName=mine,gateway.peerTls.trust=certificate)"
    check "nothing of Weir's certificates beside it" 0 "$(render --set gateway.peerTls.secretName=mine | grep -c weir-gateway-peers)"
    check "no certificates" 0 "$(render --set gateway.peerTls.managed=false | grep -c peer)"
}

replica_flags() { render --set runtime.tls.mode="$1" | grep -oE -- '--replica-[a-z-]+(=[^ "]*)?' | paste -sd ' '; }

# Replicas serve TLS only once an administrator enables it, and gateways have certificates before.
replicas_have_certificates() {
    refused mode runtime.tls.mode=on
    local prepared=(--set runtime.tls.mode=prepared)
    check "nothing of replicas' certificates by default" 0 "$(render | grep -cE 'replica-(tls|secret|authority)|gateway-replicas|tokenreviews')"
    check "prepared gateways" "--replica-tls-port=9444 --replica-secret=weir-gateway-replicas" "$(replica_flags prepared)"
    check "replicas with TLS" "--replica-tls-port=9444 --replica-tls --replica-secret=weir-gateway-replicas" "$(replica_flags enabled)"
    check "rights to the Secrets" '["weir-gateway-replicas"]["list","watch"] ["weir-replica-authority","weir-gateway-replicas"]["get","update"]' \
        "$(render "${prepared[@]}" -s templates/rbac.yaml |
            sed -n 's/.*"resourceNames":\(\[[^]]*weir-gateway-replicas"\]\),"resources":\["secrets"\],"verbs":\(.*\)}$/\1\2/p' | paste -sd ' ')"
    check "right to review tokens" 1 "$(render "${prepared[@]}" | grep -c '"resources":\["tokenreviews"\],"verbs":\["create"\]')"
    check "the authority outlives the chart" 1 "$(render "${prepared[@]}" -s templates/replica-tls.yaml | grep -c 'resource-policy: keep')"
    check "port of the controllers" "certificates serving webhook" "$(policies "${prepared[@]}" |
        sed -n 's/^ *- ports: \[{port: \([a-z-]*\), .*/\1/p' | sort | paste -sd ' ')"
    helm lint --strict --quiet $chart --set runtime.tls.mode=enabled
}

policies() { render -s templates/network-policies.yaml --set networkPolicies.admin.enabled=true "$@"; }

# A policy of all namespaces cannot exist, so those of services are listed.
network_policies_are_those_of_values() {
    local peer='[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]'
    refused from/0 networkPolicies.admin.from[0]=monitoring
    check "no policies by default" 0 "$(render | grep -c 'kind: NetworkPolicy')"
    check "policies of the admin port" "weir-autoscaler weir-controller weir-gateway" "$(policies | sed -n '/^metadata:/{n;s/^  name: //p}' | paste -sd ' ')"
    check "ports for everyone" "serving webhook" "$(policies | sed -n 's/^ *- ports: \[{port: \([a-z-]*\), .*/\1/p' | sort | paste -sd ' ')"
    check "ports for everyone with everything" "metrics-api models serving serving-tls webhook" \
        "$(policies --set gateway.tls.secretName=tls,modelCache.enabled=true,metricsApi.custom=true |
            sed -n 's/^ *- ports: \[{port: \([a-z-]*\), .*/\1/p' | sort | paste -sd ' ')"
    check "peers of the admin port" 3 "$(policies --set-json "networkPolicies.admin.from=$peer" |
        grep -cF -- "- from: [{\"podSelector\":{\"matchLabels\":{\"app.kubernetes.io/part-of\":\"weir\"}}},${peer:1}")"
    check "policies of services" '"a" "b"' "$(render --set 'networkPolicies.services.namespaces={a,b}' -s templates/network-policies.yaml |
        sed -n '/^metadata:/{n;n;s/^  namespace: //p}' | paste -sd ' ')"
    check "who reaches pods of services" "weir-controller weir-gateway" "$(render --set 'networkPolicies.services.namespaces={a}' \
        -s templates/network-policies.yaml | sed -n 's/^ *podSelector: .*kubernetes.io.name":"\(weir-[a-z]*\)".*/\1/p' | sort | paste -sd ' ')"
    helm lint --strict --quiet $chart --set networkPolicies.admin.enabled=true,networkPolicies.services.namespaces={a}
}

lint() {
    helm lint --strict --quiet $chart
    copies_match_their_sources
    refused replicas gateway.replicas=0
    refused replicas controller.replicas=two
    refused repository weir.image.repository=weir:latest
    refused domain domain=Example.com
    refused gatway gatway.replicas=2
    refused secret gateway.tls.secret=tls
    refused service access.rules[0].service=a/b
    refused pullPolicy runtime.image.pullPolicy=Sometimes
    refused external gateway.external.type=ClusterIP
    refused timeoutSeconds webhook.timeoutSeconds=60
    refused watchNamespace watchNamespace=Team
    check "image tag" 3 "$(render --set weir.image.tag=abc | grep -c 'image: "weir:abc"')"
    check "no external admin port" 0 "$(render --set gateway.external.type=LoadBalancer |
        sed -n '/name: weir-gateway-external/,/^---/p' | grep -c admin)"
    check "no TLS port by default" 0 "$(render | grep -cE 'tls|8443')"
    check "external ports with a certificate" https "$(render --set gateway.external.type=NodePort,gateway.tls.secretName=tls |
        sed -n '/name: weir-gateway-external/,/^---/p' | grep -o '"name":"[a-z]*"' | cut -d'"' -f4 | paste -sd ' ')"
    check "scheme of URLs with a certificate" 1 "$(render --set gateway.tls.secretName=tls | grep -c -- --url-scheme=https)"
    check "scheme of URLs that is set" 0 "$(render --set gateway.tls.secretName=tls,urlScheme=http | grep -c -- --url-scheme)"
    access_is_watched
    access_files_are_mounted
    gateways_have_certificates
    replicas_have_certificates
    network_policies_are_those_of_values
    check "no priority classes and no runtime" 0 "$(render --set priorityClasses.create=false,runtime.create=false |
        grep -cE '^kind: (PriorityClass|ClusterServingRuntime)')"
    check "no metrics API by default" 0 "$(render | grep -cE 'APIService|weir-metrics|metrics-api')"
    check "one metrics API" "v1beta2.custom.metrics.k8s.io" "$(render --set metricsApi.custom=true | sed -n '/kind: APIService/,/^---/p' |
        sed -n 's/^  name: //p')"
    check "rights to this metrics API only" 1 "$(render --set metricsApi.custom=true | grep apiservices | grep -vc external)"
    body_limit_fits_the_memory_limit
    listen_address_applies_to_each_port
    images_take_digests
    pod_labels_and_annotations_are_unique
    external_service_takes_its_values
    disruption_budgets_match_replicas
    alerts_use_documented_metrics
    model_cache_has_one_right
    serving_runtimes_have_kserves_names
    check "replicas by default" "1 2" "$(render | field replicas)"
    check "no replicas for gateways if an autoscaler sets them" 1 "$(render --set gateway.replicas=null | field replicas)"
    refused extraArgs "gateway.extraArgs={verbose}"
    check "extraArgs" 1 "$(render --set 'gateway.extraArgs={--max-connections=9}' | grep -c -- '- --max-connections=9')"
    refused gpuPrice gpuPrice=dear
    check "GPU price" 1 "$(render --set gpuPrice=2.5 | grep -c -- --gpu-price=2.5)"
    check "no GPU price by default" 0 "$(render | grep -c -- --gpu-price)"
    check "no right on nodes by default" 0 "$(render | grep -c "\"nodes\"\|- nodes$\|--watch-gpu-nodes")"
    check "nodes with GPUs" 1 "$(render --set watchGpuNodes=true | grep -c -- --watch-gpu-nodes)"
    check "no webhook" 0 "$(render --set webhook.enabled=false | grep -c webhook)"
    check "flags with watchNamespace" 3 "$(render --set watchNamespace=team | grep -c -- --watch-namespace=team)"
}

may() { # may COMPONENT VERB RESOURCE[/SUBRESOURCE] [NAMESPACE]
    local part=${3#*/}
    [ "$part" != "$3" ] || part=
    kubectl auth can-i "$2" "${3%/*}" --subresource "$part" --as "system:serviceaccount:$namespace:weir-$1" -n "${4:-default}" \
        2>/dev/null || true
}

# Samples of forbidden rights: those to read secrets, to start pods without their owners, or to do another component's
# work.
roles_have_least_privilege() {
    check "controller creates Deployments" yes "$(may controller create deployments.apps)"
    check "controller writes status" yes "$(may controller patch inferenceservices.serving.kserve.io/status)"
    check "controller takes the leader's lease" yes "$(may controller update leases.coordination.k8s.io $namespace)"
    check "autoscaler scales" yes "$(may autoscaler patch deployments.apps/scale)"
    check "gateway watches" yes "$(may gateway watch endpointslices.discovery.k8s.io)"
    local component verb
    for component in gateway controller autoscaler; do
        for verb in "get secrets" "create pods" "get configmaps" "create pods/exec" "update inferenceservices.serving.kserve.io" \
            "get nodes" "update leases.coordination.k8s.io" "escalate clusterroles.rbac.authorization.k8s.io"; do
            # shellcheck disable=SC2086 # a verb and a resource
            check "weir-$component may not $verb" no "$(may $component $verb)"
        done
    done
    user_roles_have_their_rights
    check "autoscaler creates no Deployments" no "$(may autoscaler create deployments.apps)"
    check "gateway reads no pods" no "$(may gateway list pods)"
    check "controller updates the webhook's Secret" yes "$(may_by_name controller update secret/weir-webhook)"
    check "controller updates the gateways' Secret" yes "$(may_by_name controller update secret/weir-gateway-peers)"
    check "gateway watches the gateways' Secret" yes "$(may_by_name gateway watch secret/weir-gateway-peers)"
    check "gateway changes no certificates" no "$(may_by_name gateway update secret/weir-gateway-peers)"
    check "controller reads no other Secret" no "$(may_by_name controller get secret/other)"
    check "controller creates no Secret" no "$(may controller create secrets $namespace)"
    check "controller changes no other webhook" no "$(may_by_name controller patch validatingwebhookconfiguration/other)"
}

# The API server updates aggregated cluster roles some moments later.
user_roles_have_their_rights() {
    local waited=0
    until kubectl get clusterrole view -o yaml | grep -q clusterservingruntimes || [ $((waited += 1)) -gt 60 ]; do sleep 0.5; done
    kubectl create rolebinding anna --clusterrole edit --user anna -n default >/dev/null
    kubectl create clusterrolebinding otto --clusterrole view --user otto >/dev/null
    check "an editor reads the scale" yes "$(person anna get inferenceservices.serving.kserve.io scale)"
    check "an editor scales" yes "$(person anna patch inferenceservices.serving.kserve.io scale)"
    check "an editor changes no ClusterServingRuntime" no "$(person anna patch clusterservingruntimes.serving.kserve.io "")"
    check "a viewer of all namespaces lists ClusterServingRuntimes" yes "$(person otto list clusterservingruntimes.serving.kserve.io "")"
    check "a viewer scales nothing" no "$(person otto patch inferenceservices.serving.kserve.io scale)"
    kubectl delete rolebinding anna -n default >/dev/null
    kubectl delete clusterrolebinding otto >/dev/null
}

person() { # person NAME VERB RESOURCE SUBRESOURCE
    kubectl auth can-i "$2" "$3" --subresource "$4" --as "$1" -n default 2>/dev/null || true
}

may_by_name() { # may_by_name COMPONENT VERB KIND/NAME: checks a right in Weir's namespace
    kubectl auth can-i "$2" "$3" --as "system:serviceaccount:$namespace:weir-$1" -n $namespace 2>/dev/null || true
}

patch_status() { # patch_status JSON: prints the status code of a patch of a pod by the autoscaler
    curl -sS --unix-socket "$socket" -X PATCH -H "Impersonate-User: system:serviceaccount:$namespace:weir-autoscaler" \
        -H 'Content-Type: application/merge-patch+json' -o /dev/null -w '%{http_code}' -d "$1" \
        http://localhost/api/v1/namespaces/default/pods/marked
}

# The right to patch pods only allows the annotation for the deletion order.
autoscaler_only_sets_the_deletion_cost() {
    local proxy socket folder cost=controller.kubernetes.io/pod-deletion-cost waited=0
    kubectl run marked --image=example/server --annotations=team=vision >/dev/null
    folder=$(mktemp -d)
    socket=$folder/socket
    kubectl proxy --unix-socket="$socket" >/dev/null &
    proxy=$!
    until [ -S "$socket" ]; do sleep 0.1; done
    # A new admission policy takes effect some moments later.
    until [ "$(patch_status '{"metadata": {"labels": {"run": "other"}}}')" = 422 ] || [ $((waited += 1)) -gt 60 ]; do
        kubectl label pod marked run=marked --overwrite >/dev/null
        sleep 0.5
    done
    check "autoscaler sets the deletion cost" 200 "$(patch_status "{\"metadata\": {\"annotations\": {\"$cost\": \"-1\"}}}")"
    check "autoscaler removes the deletion cost" 200 "$(patch_status "{\"metadata\": {\"annotations\": {\"$cost\": null}}}")"
    check "autoscaler changes no image" 422 "$(patch_status '{"spec": {"containers": [{"name": "marked", "image": "example/other"}]}}')"
    check "autoscaler adds no other annotation" 422 "$(patch_status '{"metadata": {"annotations": {"other": "x"}}}')"
    check "autoscaler changes no other annotation" 422 "$(patch_status '{"metadata": {"annotations": {"team": "x"}}}')"
    check "autoscaler removes no other annotation" 422 "$(patch_status '{"metadata": {"annotations": {"team": null}}}')"
    check "autoscaler adds no label" 422 "$(patch_status '{"metadata": {"labels": {"other": "x"}}}')"
    check "autoscaler adds no finalizer" 422 "$(patch_status '{"metadata": {"finalizers": ["example.com/x"]}}')"
    kill $proxy
    rm -rf "$folder"
    kubectl delete pod marked --now >/dev/null
}

slice() { # slice NAME LABEL: prints the result when anna creates an EndpointSlice with an address that belongs to no pod
    local output
    output=$(kubectl create --as anna -f - 2>&1 <<YAML
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1, namespace: default, labels: {app.kubernetes.io/managed-by: $2}}
addressType: IPv4
endpoints: [{addresses: [10.9.9.9]}]
ports: [{name: http, port: 6443}]
YAML
    ) || true
    grep -oE 'created|only Kubernetes writes the addresses' <<<"$output" || true
}

# A user who may write EndpointSlices must not be able to direct the gateways to arbitrary addresses, because many
# networks trust the gateways.
users_cannot_forge_addresses() {
    local waited=0
    kubectl create role slices --verb=create,update --resource=endpointslices.discovery.k8s.io -n default >/dev/null
    kubectl create rolebinding anna --role slices --user anna -n default >/dev/null
    # A new policy and a new right take effect some moments later.
    until [ "$(slice "probe-$waited" weir)" = "only Kubernetes writes the addresses" ] || [ $((waited += 1)) -gt 60 ]; do sleep 0.5; done
    check "a user's EndpointSlice that claims to be Weir's" "only Kubernetes writes the addresses" "$(slice forged weir)"
    check "a user's other EndpointSlice" created "$(slice own people)"
    kubectl create service clusterip made --tcp=80 -n default --dry-run=client -o yaml |
        kubectl label --local -f - app.kubernetes.io/managed-by=weir -o yaml | kubectl apply -f - >/dev/null
    waited=0
    until [ -n "$(slices_of made)" ] || [ $((waited += 1)) -gt 60 ]; do sleep 0.5; done
    check "EndpointSlices that Kubernetes creates" 1 "$(slices_of made | wc -l)"
    kubectl delete service made -n default >/dev/null
    kubectl delete endpointslice -n default -l "app.kubernetes.io/managed-by in (weir, people)" >/dev/null
    kubectl delete rolebinding anna -n default >/dev/null
    kubectl delete role slices -n default >/dev/null
}

slices_of() { kubectl get endpointslice -n default -l "kubernetes.io/service-name=$1" -o name; }

# With watchNamespace, the rights only apply to the services' namespace; cluster-wide objects are read by name or not at
# all.
roles_with_watch_namespace() {
    local notes
    kubectl create namespace team >/dev/null
    notes=$(helm install weir $chart --namespace $namespace --set watchNamespace=team --wait --timeout 90s)
    check "the notes show how to call the first service" 1 "$(grep -c 'curl -s http://digits.team/v2/models/digits' <<<"$notes")"
    check "cluster roles" "weir-controller weir-edit weir-view" \
        "$(kubectl get clusterrole -o 'jsonpath={.items[*].metadata.name}' | tr ' ' '\n' | grep ^weir | sort | paste -sd ' ')"
    check "controller creates Deployments in the watched namespace" yes "$(may controller create deployments.apps team)"
    check "controller creates no Deployments elsewhere" no "$(may controller create deployments.apps)"
    check "controller reads ServiceAccounts in the watched namespace" yes "$(may controller get serviceaccounts team)"
    check "controller reads no ServiceAccounts elsewhere" no "$(may controller get serviceaccounts)"
    check "controller watches ClusterStorageContainers" yes "$(may controller watch clusterstoragecontainers.serving.kserve.io)"
    check "controller watches ClusterServingRuntimes" yes "$(may controller watch clusterservingruntimes.serving.kserve.io)"
    check "controller reads the watched namespace" yes "$(may_by_name controller get namespace/team)"
    check "controller reads no other namespace" no "$(may_by_name controller get namespace/default)"
    check "gateway watches the watched namespace" yes "$(may gateway watch services team)"
    check "gateway watches no other namespace" no "$(may gateway watch services)"
    check "gateway watches the gateways' addresses" yes "$(may gateway watch endpointslices.discovery.k8s.io $namespace)"
    check "autoscaler scales in the watched namespace" yes "$(may autoscaler patch deployments.apps/scale team)"
    check "autoscaler scales nothing elsewhere" no "$(may autoscaler patch deployments.apps/scale)"
    helm uninstall weir --namespace $namespace --wait >/dev/null
    check "objects left after watchNamespace" "" "$(leftovers)$(kubectl get role,rolebinding -n team -o name)"
}

refused_install() { # refused_install WORDS NAME: checks that a release is refused with these words before anything is changed
    local output
    if output=$(helm install "$2" $chart --namespace default 2>&1); then check "release $2" refused taken; fi
    check "release $2: $output" "$1" "$(grep -o -- "$1" <<<"$output" | head -n 1)"
}

# KServe would change Weir's services and pods, and would block changes of both after it is removed.
kserve_is_refused() {
    kubectl apply -f - >/dev/null <<YAML
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: inferenceservice.serving.kserve.io}
webhooks: []
YAML
    refused_install "Coming from KServe" weir
    kubectl delete mutatingwebhookconfiguration inferenceservice.serving.kserve.io >/dev/null
}

# Runs the command of docs/kubernetes.md on definitions as helm installs them.
crds_are_upgraded() {
    local newer
    newer=$(mktemp -d)
    kubectl apply --server-side --force-conflicts --field-manager helm -f $chart/crds >/dev/null
    cp $chart/crds/*.yaml "$newer"
    sed -i 's/^      name: PrevRolledoutRevision$/      name: Newer/' "$newer/inferenceservices.yaml"
    kubectl apply --server-side --force-conflicts -f "$newer" >/dev/null
    check "a CRD after its upgrade" Newer "$(kubectl get crd inferenceservices.serving.kserve.io \
        -o 'jsonpath={.spec.versions[0].additionalPrinterColumns[4].name}')"
    kubectl apply --server-side --force-conflicts -f $chart/crds >/dev/null
    rm -rf "$newer"
}

# An InferenceService can be deleted while nothing of Weir runs.
services_outlive_the_chart() {
    helm install weir $chart --namespace $namespace --wait --timeout 90s --set metricsApi.custom=true,metricsApi.external=true >/dev/null
    check "metrics APIs" 2 "$(kubectl get apiservice -l $ours -o name 2>/dev/null | wc -l)"
    kubectl apply -f - >/dev/null <<YAML
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits, namespace: default}
spec: {predictor: {model: {modelFormat: {name: pytorch}, storageUri: pvc://models/digits}}}
YAML
    helm uninstall weir --namespace $namespace --wait >/dev/null
    check "objects left besides an InferenceService" "" "$(leftovers)"
    check "an InferenceService without Weir" inferenceservice.serving.kserve.io/digits "$(kubectl get inferenceservice digits -n default -o name)"
    helm install weir $chart --namespace $namespace --wait --timeout 90s >/dev/null
    helm uninstall weir --namespace $namespace --wait >/dev/null
    kubectl delete inferenceservice digits -n default --timeout 30s >/dev/null
}

leftovers() { # Prints what a chart leaves, except the definitions, which contain users' services.
    kubectl get all,sa,role,rolebinding,pdb,secret -n $namespace -o name | grep weir || true
    kubectl get clusterrole,clusterrolebinding,priorityclass,clusterservingruntime,validatingwebhookconfiguration,validatingadmissionpolicy,validatingadmissionpolicybinding \
        -o name | grep weir || true
    kubectl get apiservice,rolebinding -n kube-system -l $ours -o name
}

install() {
    local restricted=pod-security.kubernetes.io
    kubectl create namespace $namespace >/dev/null
    kubectl label namespace $namespace $restricted/enforce=restricted $restricted/warn=restricted >/dev/null
    check "warnings of the API server" "" "$(render | kubectl apply --dry-run=server --server-side -f - 2>&1 >/dev/null)"
    helm install weir $chart --namespace $namespace --wait --timeout 90s >/dev/null
    check "kubectl apply after helm reports no conflicts or changes" "" \
        "$(render | kubectl apply --dry-run=server --server-side -f - 2>&1 >/dev/null)"
    check "available replicas" "1 1 2" "$(kubectl get deployment -n $namespace -o 'jsonpath={.items[*].status.availableReplicas}')"
    check "model name in the runtime's arguments" --model-name={{.Name}} "$(kubectl get clusterservingruntime weir-libtorch \
        -o 'jsonpath={.spec.containers[0].args[1]}')"
    check "priority of Weir's pods" "1000000 1000000 1000000 1000000" \
        "$(kubectl get pod -n $namespace -o 'jsonpath={.items[*].spec.priority}')"
    check "maxUnavailable of the gateway's disruption budget" 1 "$(kubectl get pdb weir-gateway -n $namespace -o 'jsonpath={.spec.maxUnavailable}')"
    check "network policies are valid" "" "$(policies --set 'networkPolicies.services.namespaces={default},metricsApi.custom=true' \
        --set-json 'networkPolicies.services.from=[{"ipBlock":{"cidr":"10.0.0.0/8"}}]' | kubectl apply --dry-run=server -f - 2>&1 >/dev/null)"
    refused_install "there is one already" other
    roles_have_least_privilege
    autoscaler_only_sets_the_deletion_cost
    users_cannot_forge_addresses
    # The leading controller writes this field, and an upgrade keeps it, even one that changes the webhook.
    kubectl patch validatingwebhookconfiguration weir-webhook --type json \
        -p '[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "YQ=="}]' >/dev/null
    kubectl patch secret weir-webhook -n $namespace -p '{"data": {"pairs.json": "YQ=="}}' >/dev/null
    kubectl patch secret weir-gateway-peers -n $namespace -p '{"data": {"ca.crt": "YQ=="}}' >/dev/null
    helm upgrade weir $chart --namespace $namespace --wait --timeout 90s --set gateway.replicas=3,webhook.timeoutSeconds=5,access.enabled=true,runtime.tls.mode=prepared >/dev/null
    check "webhook after an upgrade" "YQ== 5 YQ==" "$(kubectl get validatingwebhookconfiguration weir-webhook \
        -o 'jsonpath={.webhooks[0].clientConfig.caBundle} {.webhooks[0].timeoutSeconds}') $(kubectl get secret weir-webhook -n $namespace \
        -o 'jsonpath={.data.pairs\.json}')"
    check "certificates of gateways after an upgrade" "YQ==" \
        "$(kubectl get secret weir-gateway-peers -n $namespace -o 'jsonpath={.data.ca\.crt}')"
    check "gateway watches the Secret with keys" yes "$(may_by_name gateway watch secret/weir-access)"
    check "gateway watches no other Secret" "no no" "$(may_by_name gateway watch secret/other) $(may gateway list secrets $namespace)"
    check "controller keeps the authority of replicas" "yes yes" \
        "$(may_by_name controller get secret/weir-replica-authority) $(may_by_name controller update secret/weir-replica-authority)"
    check "gateway watches its certificate for replicas alone" "yes no" \
        "$(may_by_name gateway watch secret/weir-gateway-replicas) $(may_by_name gateway watch secret/weir-replica-authority)"
    check "gateway changes no certificate for replicas" no "$(may_by_name gateway update secret/weir-gateway-replicas)"
    check "controller alone reviews tokens" "yes no no" "$(for component in controller gateway autoscaler; do
        may $component create tokenreviews.authentication.k8s.io; done | paste -sd ' ')"
    check "replicas after an upgrade" 3 "$(kubectl get deployment weir-gateway -n $namespace -o 'jsonpath={.status.availableReplicas}')"
    helm uninstall weir --namespace $namespace --wait >/dev/null
    # Pods of services trust it for as long as they run.
    check "the authority of replicas outlives the chart" "secret/weir-replica-authority" \
        "$(kubectl delete secret weir-replica-authority -n $namespace -o name)"
    check "objects left after helm uninstall" "" "$(leftovers)"
    roles_with_watch_namespace
    kserve_is_refused
    crds_are_upgraded
    services_outlive_the_chart
}

PATH=$($bed/build.sh helm)/bin:$PATH
case ${1:-} in
    lint) lint ;;
    install) KUBECONFIG=$WEIR_TEST_KUBECONFIG install ;;
    *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
esac
echo "chart $1: $passed checks passed"
