{{- define "lastbeat.labels" -}}
app.kubernetes.io/name: lastbeat
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* A pod's spec. Takes a dict: top, part, command (a list), and optionally image, account, port, health. */}}
{{- define "lastbeat.pod" -}}
{{- $values := .top.Values }}
serviceAccountName: {{ .top.Release.Name }}{{ with .account }}-{{ . }}{{ end }}
{{- if not .account }}
# Watching needs nothing of Kubernetes.
automountServiceAccountToken: false
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .part }}
    image: {{ .image | default (printf "%s:%s" $values.image.repository ($values.image.tag | default .top.Chart.AppVersion)) | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: {{ .command | toJson }}
    env:
      - {name: MONITORING_ROOT, value: {{ $values.root | quote }}}
      {{- range $name, $value := $values.settings }}
      - {name: {{ $name }}, value: {{ $value | quote }}}
      {{- end }}
    {{- with $values.secret }}
    envFrom:
      - secretRef: {name: {{ . }}}
    {{- end }}
    {{- with .port }}
    ports:
      - {name: http, containerPort: {{ . }}}
    {{- end }}
    {{- if .health }}
    # A sweep that has not seen the fleet for a quarter of an hour is started again.
    livenessProbe:
      exec: {command: [/opt/lastbeat/bin/python, /opt/lastbeat/health.py]}
      periodSeconds: 60
      timeoutSeconds: 10
      failureThreshold: 3
    {{- else if eq .part "dashboard" }}
    readinessProbe:
      tcpSocket: {port: http}
    {{- end }}
    resources: {{ (index $values .part).resources | toJson }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {}
{{- end }}
