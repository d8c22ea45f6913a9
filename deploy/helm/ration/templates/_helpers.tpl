{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- define "ration.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Of all objects. The release may be called after the chart. */ -}}
{{- define "ration.fullname" -}}
{{- $name := include "ration.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* By which pods are found. They never change. */ -}}
{{- define "ration.selector" -}}
app.kubernetes.io/name: {{ include "ration.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: server
{{- end }}

{{- define "ration.release" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ration.labels" -}}
{{ include "ration.selector" . }}
{{ include "ration.release" . }}
{{- end }}

{{- define "ration.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "ration.secretName" -}}
{{- .Values.secret.existing | default (include "ration.fullname" .) }}
{{- end }}

{{- /* The keys of the Secret, as a JSON list: those of yours, or of what is set in values. */ -}}
{{- define "ration.secretKeys" -}}
{{- $keys := list }}
{{- if .Values.secret.existing }}
{{- $keys = .Values.secret.keys }}
{{- else }}
{{- range $key, $value := include "ration.secretValues" . | fromJson }}
{{- $keys = append $keys $key }}
{{- end }}
{{- end }}
{{- toJson $keys }}
{{- end }}

{{- /* What is set in values, as a JSON object. */ -}}
{{- define "ration.secretValues" -}}
{{- $set := dict }}
{{- range $key, $value := dict "admin-token" .Values.secret.adminToken "metrics-token" .Values.secret.metricsToken "redis-url" .Values.secret.redisUrl }}
{{- if $value }}
{{- $_ := set $set $key $value }}
{{- end }}
{{- end }}
{{- toJson $set }}
{{- end }}

{{- /* Not empty if there is more than one pod. */ -}}
{{- define "ration.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}yes{{ end }}
{{- end }}
