/*
 * The URI templates, also used by completion.
 */
#ifndef CLOISTER_SUPERVISOR_RESOURCES_TEMPLATES_H
#define CLOISTER_SUPERVISOR_RESOURCES_TEMPLATES_H

#define TEMPLATE_FILE   "sandbox://{sandbox_id}/{+path}"
#define TEMPLATE_STREAM "execution://{execution_id}/{stream}"

#endif
