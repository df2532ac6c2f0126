{{/* Labels of a component's object: include "weir.labels" (list $ "gateway") */}}
{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels that select a component's pods. They never change, because a Deployment's selector is immutable. */}}
{{- define "weir.selector" -}}
app.kubernetes.io/name: weir-{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end }}

{{/* Name of the Secret in which controllers keep the certificates of gateways; empty if they keep none */}}
{{- define "weir.peerSecret" -}}
{{- $peers := .Values.gateway.peerTls }}
{{- if and $peers.managed (not $peers.secretName) }}weir-gateway-peers{{ end }}
{{- end }}

{{/* Image reference with its tag, or with its digest, which takes precedence: include "weir.image" (list $ .Values.weir.image) */}}
{{- define "weir.image" -}}
{{- $image := index . 1 }}
{{- if $image.digest -}}
{{ $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Converts a quantity such as 1Gi to a whole number of bytes: include "weir.bytes" .Values.gateway.resources.limits.memory */}}
{{- define "weir.bytes" -}}
{{- $text := ternary (printf "%.0f" (float64 .)) (toString .) (kindIs "float64" .) }}
{{- $units := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 }}
{{- $unit := regexFind "[A-Za-z]+$" $text }}
{{- mulf (float64 (trimSuffix $unit $text)) (get $units $unit | default 1.0) | int64 }}
{{- end }}

{{/* Security context of a container for the Pod Security level `restricted`, with a read-only root file system */}}
{{- define "weir.restricted" -}}
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Deployment of a component: include "weir.deployment" (dict "root" $ "name" "gateway" "args" (list …) "ports" (dict …) …) */}}
{{- define "weir.deployment" -}}
{{- $root := .root }}
{{- $values := index $root.Values .name }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: weir-{{ .name }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels: {{- include "weir.labels" (list $root .name) | nindent 4 }}
spec:
  {{- with $values.replicas }}
  replicas: {{ . }}
  {{- end }}
  # The old pod is deleted only when its replacement is ready.
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector:
    matchLabels: {{- include "weir.selector" (list $root .name) | nindent 6 }}
  template:
    metadata:
      {{- /* Values override the defaults, except for the selector labels. Merging makes each name unique in the mapping. */}}
      {{- $found := include "weir.selector" (list $root .name) | fromYaml }}
      {{- $labels := include "weir.labels" (list $root .name) | fromYaml }}
      {{- $annotations := dict "prometheus.io/scrape" "true" "prometheus.io/port" "9090" }}
      labels: {{- mergeOverwrite $labels ($values.podLabels | default dict) $found | toYaml | nindent 8 }}
      annotations: {{- mergeOverwrite $annotations ($values.podAnnotations | default dict) | toYaml | nindent 8 }}
    spec:
      serviceAccountName: weir-{{ .name }}
      priorityClassName: weir-system
      terminationGracePeriodSeconds: {{ .grace | default 30 }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          # Pods of an older template do not count. Otherwise, the pods that replace them would all be placed on one node.
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels: {{- include "weir.selector" (list $root $.name) | nindent 14 }}
        {{- end }}
      {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
      {{- with index $values $field }}
      {{ $field }}: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      containers:
        - name: weir
          image: {{ include "weir.image" (list $root $root.Values.weir.image) | quote }}
          imagePullPolicy: {{ $root.Values.weir.image.pullPolicy }}
          args: {{- toYaml (concat (prepend .args .name) ($values.extraArgs | default list)) | nindent 12 }}
          env:
            - {name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}}
            {{- range $name, $value := .env }}
            - {name: {{ $name }}, value: {{ $value | quote }}}
            {{- end }}
          ports:
            {{- range .ports }}
            - {name: {{ .name }}, containerPort: {{ .port }}}
            {{- end }}
            - {name: admin, containerPort: 9090}
          # Loading the cluster's state may take a while; until then the process is alive but not ready.
          readinessProbe: {httpGet: {path: /ready, port: admin}, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2}
          livenessProbe: {httpGet: {path: /health, port: admin}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3, initialDelaySeconds: 10}
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext: {{- include "weir.restricted" $root | nindent 12 }}
          {{- $adminToken := $root.Values.admin.tokenSecretName }}
          {{- if or .secret .peers .files $adminToken }}
          volumeMounts:
            {{- range .files }}
            - {name: access-{{ .name }}, mountPath: /etc/weir/access/{{ .name }}, readOnly: true}
            {{- end }}
            {{- if .peers }}
            - {name: peers, mountPath: /etc/weir/peers, readOnly: true}
            {{- end }}
            {{- if $adminToken }}
            - {name: admin-token, mountPath: /etc/weir/admin, readOnly: true}
            {{- end }}
            {{- if .secret }}
            - {name: tls, mountPath: /etc/weir/tls, readOnly: true}
            {{- end }}
      volumes:
        {{- range .files }}
        {{- if .secret }}
        - {name: access-{{ .name }}, secret: {secretName: {{ .secret }}}}
        {{- else }}
        - {name: access-{{ .name }}, configMap: {name: {{ .configMap }}}}
        {{- end }}
        {{- end }}
        {{- with .peers }}
        - {name: peers, secret: {secretName: {{ . }}}}
        {{- end }}
        {{- with $adminToken }}
        - {name: admin-token, secret: {secretName: {{ . }}}}
        {{- end }}
        {{- with .secret }}
        - {name: tls, secret: {secretName: {{ . }}}}
        {{- end }}
          {{- end }}
{{- end }}

{{/* Service of a component inside the cluster: include "weir.service" (dict "root" $ "name" "gateway" "ports" (list …)) */}}
{{- define "weir.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: weir-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{- include "weir.labels" (list .root .name) | nindent 4 }}
spec:
  selector: {{- include "weir.selector" (list .root .name) | nindent 4 }}
  ports:
    {{- range .ports }}
    - {{ toJson . }}
    {{- end }}
    - {name: admin, port: 9090, targetPort: admin}
{{- end }}

{{/* PodDisruptionBudget: node drains evict at most one pod of a component at a time: include "weir.budget" (dict "root" $ "name" "gateway") */}}
{{- define "weir.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: weir-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{- include "weir.labels" (list .root .name) | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "weir.selector" (list .root .name) | nindent 6 }}
{{- end }}

{{/* Role of a component with its binding; nothing if there are no rules: include "weir.role" (dict "root" $ "name" "gateway" "kind" "Role" "namespace" … "rules" …) */}}
{{- define "weir.role" -}}
{{- if .rules }}
{{- $name := printf "weir-%s%s" .name (.suffix | default "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "weir.labels" (list .root .name) | nindent 4 }}
rules:
  {{- range .rules }}
  - {{ toJson . }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "weir.labels" (list .root .name) | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .kind }}, name: {{ $name }}}
subjects: [{kind: ServiceAccount, name: weir-{{ .name }}, namespace: {{ .root.Release.Namespace | quote }}}]
{{- end }}
{{- end }}

{{/* Arguments common to all components, followed by the component's own: include "weir.args" (list $ (list …)) | fromJsonArray */}}
{{- define "weir.args" -}}
{{- $values := (index . 0).Values }}
{{- $args := list "--admin-port=9090" (printf "--domain=%s" $values.domain) (printf "--cluster-domain=%s" $values.clusterDomain) }}
{{- with $values.watchNamespace }}
{{- $args = append $args (printf "--watch-namespace=%s" .) }}
{{- end }}
{{- with $values.listenAddress }}
{{- $args = append $args (printf "--address=%s" .) }}
{{- end }}
{{- if $values.admin.tokenSecretName }}
{{- $args = append $args "--admin-token-file=/etc/weir/admin/token" }}
{{- end }}
{{- toJson (concat $args (index . 1)) }}
{{- end }}
