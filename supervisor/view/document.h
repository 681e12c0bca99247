/*
 * The document of the view, which the build puts together from assets/.
 */
#ifndef CLOISTER_SUPERVISOR_VIEW_DOCUMENT_H
#define CLOISTER_SUPERVISOR_VIEW_DOCUMENT_H

extern const char view_document[];

#endif
